package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
)

// What happens is a short line each; why something failed or was skipped is
// told at the end.
func TestNarrate(t *testing.T) {
	tests := map[string]struct {
		event rollout.Event
		want  string
	}{
		"begun":     {rollout.Event{Kind: rollout.EventBegun, Component: "web", Message: "install"}, "apply: web: install\n"},
		"done":      {rollout.Event{Kind: rollout.EventDone, Component: "web", Message: "Helm revision 2", Duration: 3140 * time.Millisecond}, "apply: web: done after 3.1s, Helm revision 2\n"},
		"failed":    {rollout.Event{Kind: rollout.EventFailed, Component: "web", Message: "a long cause", Duration: time.Second}, "apply: web: failed after 1s\n"},
		"skipped":   {rollout.Event{Kind: rollout.EventSkipped, Component: "web", Message: "needs db, which failed", On: []string{"db"}}, ""},
		"waiting":   {rollout.Event{Kind: rollout.EventWaiting, Component: "web", On: []string{"db", "crds"}}, "apply: web: waiting on db, crds\n"},
		"unchanged": {rollout.Event{Kind: rollout.EventUnchanged, Component: "web"}, "apply: web: unchanged\n"},
		"healed":    {rollout.Event{Kind: rollout.EventHealed, Component: "web", Message: "Helm revision 1 is failed now"}, "apply: web: healed: Helm revision 1 is failed now\n"},
		"of all":    {rollout.Event{Kind: rollout.EventNamespace, Message: "created namespace shop"}, "apply: created namespace shop\n"},
		"warning":   {rollout.Event{Kind: rollout.EventWarning, Component: "web", Message: "look"}, "apply: warning: web: look\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			n := &narrator{talk: ui.NewTalk(&said, "apply", ui.TalkOptions{})}
			defer n.show("installing shop").Close()
			n.say(tt.event)
			if said.String() != tt.want {
				t.Errorf("said %q, want %q", said.String(), tt.want)
			}
		})
	}
}

// A cause is told once: by the error where there is one, else in the table.
func TestCauseIsToldOnce(t *testing.T) {
	outcome := &rollout.Outcome{Instance: "shop", Version: "1.0.0", Revision: 3, Status: rollout.StatusFailed, Components: []rollout.ComponentOutcome{
		{Name: "db", Action: "upgrade", Outcome: rollout.OutcomeFailed, Reason: "the cause of db", HelmBefore: 1, HelmAfter: 3, Seconds: 2},
		{Name: "web", Action: "install", Outcome: rollout.OutcomeSkipped, Reason: "needs db, which failed", WaitedOn: []string{"db"}},
		{Name: "job", Action: "install", Outcome: rollout.OutcomeFailed, Reason: "the cause of job"},
	}}
	partial := &rollout.PartialError{
		Outcome: outcome, Err: errors.New("component db: the cause of db"), Others: []error{errors.New("component job: the cause of job")},
	}
	for name, err := range map[string]error{"a failure": partial, "an interruption": &rollout.InterruptedError{Outcome: outcome}} {
		t.Run(name, func(t *testing.T) {
			var out, said bytes.Buffer
			talk := ui.NewTalk(&said, "apply", ui.TalkOptions{})
			if perr := printOutcome(&out, talk, outcome, err, flags.Text); perr != nil {
				t.Fatal(perr)
			}
			ui.Report(t.Context(), &said, "apply", err)
			all := out.String() + said.String()
			for _, once := range []string{"the cause of db", "the cause of job", "needs db, which failed"} {
				if n := strings.Count(all, once); n != 1 {
					t.Errorf("%q is told %d times:\n%s", once, n, all)
				}
			}
		})
	}
}
