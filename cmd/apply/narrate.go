package main

import (
	"sync"
	"time"

	"waybill/internal/ui"
	"waybill/rollout"
)

// A narrator tells how the work on a cluster goes on: what happens in lines, and
// what is at work in the step that is shown.
type narrator struct {
	talk *ui.Talk

	mu   sync.Mutex
	step *ui.Progress // nil while none is shown
}

// show shows a step whose items are the components. Close it.
func (n *narrator) show(doing string) *ui.Progress {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.step = n.talk.Progress(ui.Step{Doing: doing, Unit: "component", Brief: true})
	return n.step
}

// say turns an event into a line. Why something failed or was skipped is told
// at the end, once.
func (n *narrator) say(e rollout.Event) {
	n.follow(e)
	switch {
	case e.Kind == rollout.EventWarning:
		n.talk.Warnf("%s", about(e, e.Message))
	case e.Kind == rollout.EventSkipped:
	case e.Kind == rollout.EventBegun:
		n.talk.Sayf("%s", about(e, e.Message))
	case e.Kind == rollout.EventWaiting:
		n.talk.Sayf("%s", about(e, "waiting on "+joinWords(e.On)))
	case e.Kind == rollout.EventFailed:
		n.talk.Sayf("%s", about(e, "failed"+after(e)))
	case e.Component != "":
		n.talk.Sayf("%s", about(e, told(e)))
	default:
		n.talk.Sayf("%s", e.Message)
	}
}

// follow keeps the shown step in step with the components.
func (n *narrator) follow(e rollout.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.step == nil || e.Component == "" {
		return
	}
	switch e.Kind {
	case rollout.EventBegun:
		n.step.Start(e.Component)
	case rollout.EventDone:
		n.step.Finish(e.Component)
	case rollout.EventFailed:
		n.step.Drop(e.Component)
	}
}

func told(e rollout.Event) string {
	switch {
	case e.Message == "":
		return e.Kind + after(e)
	case e.Duration > 0:
		return e.Kind + after(e) + ", " + e.Message
	default:
		return e.Kind + ": " + e.Message
	}
}

func about(e rollout.Event, text string) string {
	if e.Component == "" {
		return text
	}
	return e.Component + ": " + text
}

func after(e rollout.Event) string {
	if e.Duration == 0 {
		return ""
	}
	return " after " + e.Duration.Round(100*time.Millisecond).String()
}
