package ui

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
	"waybill/charts"
	"waybill/internal/door"
	"waybill/registry"
	"waybill/rollout"
	"waybill/signing"
)

// Every error a program can end with has one exit code, however deep it lies.
func TestExitCodes(t *testing.T) {
	outcome := &rollout.Outcome{Instance: "shop"}
	tests := map[string]struct {
		err  error
		want int
	}{
		"anything":              {errors.New("broke"), ExitFailed},
		"lint":                  {&bundle.LintError{}, ExitFailed},
		"a busy layout":         {&registry.BusyError{}, ExitFailed},
		"location":              {&registry.LocationError{}, ExitUsage},
		"override":              {&registry.OverrideError{}, ExitUsage},
		"choice":                {&registry.ChoiceError{}, ExitUsage},
		"file":                  {&bundle.FileError{}, ExitUsage},
		"no version":            {bundle.ErrNoVersion, ExitUsage},
		"unknown component":     {&bundle.UnknownComponentError{}, ExitUsage},
		"policy":                {&signing.PolicyError{}, ExitUsage},
		"policy file":           {&door.PolicyError{}, ExitUsage},
		"key":                   {&signing.KeyError{}, ExitUsage},
		"chart moved":           {&charts.MovedError{}, ExitCorrupt},
		"no such chart":         {&charts.NotFoundError{}, ExitNotFound},
		"broken index":          {&charts.RepositoryError{}, ExitCorrupt},
		"ambiguous version":     {&charts.AmbiguousError{}, ExitFailed},
		"no chart version":      {&charts.VersionError{}, ExitUsage},
		"broken manifests":      {&charts.ManifestError{}, ExitUsage},
		"other Chart.lock":      {&charts.OutOfSyncError{}, ExitUsage},
		"git login":             {&charts.GitError{Denied: true}, ExitNotFound},
		"git unreachable":       {&charts.GitError{Unreachable: true}, ExitUnreachable},
		"dependency moved":      {&charts.NeedError{Err: &charts.MovedError{}}, ExitCorrupt},
		"values":                {&charts.LayerError{Err: errors.New("x")}, ExitUsage},
		"unknown in a request":  {&rollout.UnknownError{}, ExitUsage},
		"request":               {&rollout.UsageError{}, ExitUsage},
		"refused signature":     {&signing.RefusedError{Digest: digest.FromString("root")}, ExitRefused},
		"no policy":             {&door.NoPolicyError{}, ExitRefused},
		"downgrade":             {&rollout.DowngradeError{}, ExitRefused},
		"not found":             {&registry.NotFoundError{}, ExitNotFound},
		"denied":                {&registry.DeniedError{}, ExitNotFound},
		"no such instance":      {&rollout.NotFoundError{}, ExitNotFound},
		"stale":                 {&bundle.StaleError{}, ExitDiffers},
		"content":               {&bundle.ContentError{}, ExitCorrupt},
		"archive":               {&registry.ContentError{}, ExitCorrupt},
		"signature bytes":       {&signing.ContentError{}, ExitCorrupt},
		"newer":                 {&bundle.NewerError{}, ExitCorrupt},
		"unknown roles":         {&bundle.UnknownRoleError{}, ExitCorrupt},
		"no bundle":             {bundle.ErrNotBundle, ExitCorrupt},
		"newer record":          {&rollout.NewerRecordError{}, ExitCorrupt},
		"plan":                  {&rollout.RefusedError{}, ExitPlan},
		"held":                  {&rollout.HeldError{}, ExitHeld},
		"partial":               {&rollout.PartialError{Outcome: outcome, Err: &registry.UnreachableError{}}, ExitPartial},
		"registry unreachable":  {&registry.UnreachableError{}, ExitUnreachable},
		"a page in its place":   {&registry.UnreachableError{Why: registry.WhyPage}, ExitUnreachable},
		"leads nowhere":         {&registry.UnreachableError{Why: registry.WhyWrong}, ExitFailed},
		"cluster unreachable":   {&rollout.ClusterError{Err: errors.New("x")}, ExitUnreachable},
		"cluster unreachable 2": {&charts.UnreachableError{Err: errors.New("x")}, ExitUnreachable},
		"refused addresses":     {&registry.AddressError{}, ExitFailed},
		"a layer is needed":     {&registry.LeftOutError{Err: &registry.NotFoundError{}}, ExitFailed},
		"no room":               {&registry.SpaceError{}, ExitFailed},
		"file too large":        {&registry.FileSizeError{}, ExitFailed},
		"unfinished, lost host": {&registry.UnfinishedError{Err: &registry.UnreachableError{}}, ExitUnreachable},
		"unfinished, bad bytes": {&registry.UnfinishedError{Err: &registry.ContentError{}}, ExitCorrupt},
		"interrupted":           {&rollout.InterruptedError{Outcome: outcome}, ExitInterrupted},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			wrapped := fmt.Errorf("doing this: %w", fmt.Errorf("doing that: %w", tt.err))
			if got := Report(context.Background(), &said, "apply", wrapped); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
			if !strings.HasPrefix(said.String(), "apply: error: ") {
				t.Errorf("said %q", said.String())
			}
		})
	}
}

// What was published anew is accepted component by component, so they are named.
func TestReportMoved(t *testing.T) {
	moved := func(component string) error {
		return &bundle.ComponentError{Component: component, Act: "resolving the chart", Err: fmt.Errorf("x: %w", &charts.MovedError{Name: "app"})}
	}
	err := fmt.Errorf("locking: %w", errors.Join(
		moved("web"), &bundle.ComponentError{Component: "db", Err: &charts.NotFoundError{What: "chart db"}}, moved("api"),
	))
	var said bytes.Buffer
	if got := Report(context.Background(), &said, "bundle", err); got != ExitCorrupt || !strings.Contains(said.String(), "`bundle lock --update web api`") {
		t.Errorf("exit code %d, said %q", got, said.String())
	}
}

// Where who may sign is named is what the program has: a site file is apply's.
func TestReportNoPolicy(t *testing.T) {
	for name, want := range map[string]bool{"bundle": false, "waybill-bundle": false, "apply": true, "waybill-apply": true} {
		var said bytes.Buffer
		Report(context.Background(), &said, name, &door.NoPolicyError{})
		if got := strings.Contains(said.String(), "site file"); got != want || !strings.Contains(said.String(), "--policy FILE") {
			t.Errorf("%s said %q", name, said.String())
		}
	}
}

func TestReportNothing(t *testing.T) {
	var said bytes.Buffer
	if got := Report(context.Background(), &said, "bundle", nil); got != ExitDone || said.Len() > 0 {
		t.Errorf("exit code %d, said %q", got, said.String())
	}
}

// Whatever fails after an interruption fails because of it.
func TestReportInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var said bytes.Buffer
	if got := Report(ctx, &said, "bundle", &registry.UnreachableError{}); got != ExitInterrupted {
		t.Errorf("exit code %d, want %d", got, ExitInterrupted)
	}
}

// What is left of an archive is said with the way on, however it came to be left.
func TestReportUnfinished(t *testing.T) {
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tt := range map[string]struct {
		ctx   context.Context
		cause error
		code  int
		words []string
	}{
		"interrupted":  {interrupted, context.Canceled, ExitInterrupted, []string{"error: interrupted; 1.0 KiB of 3.0 KiB are kept in a.tar.partial and a.tar.partial.journal\n", "hint: run the same command again"}},
		"unreachable":  {context.Background(), &registry.UnreachableError{Reason: "gone"}, ExitUnreachable, []string{"gone; 1.0 KiB of 3.0 KiB", "once the host answers\n", "run the same command again", "remove both files"}},
		"no room left": {context.Background(), syscall.ENOSPC, ExitFailed, []string{"no space left", "hint: make room on the disk first", "run the same command again"}},
	} {
		var said bytes.Buffer
		err := fmt.Errorf("copying: %w", &registry.UnfinishedError{
			Partial: "a.tar.partial", Journal: "a.tar.partial.journal",
			Done: registry.Amount{Objects: 1, Bytes: 1024}, Of: registry.Amount{Objects: 2, Bytes: 3072}, Err: tt.cause,
		})
		if got := Report(tt.ctx, &said, "bundle", err); got != tt.code {
			t.Errorf("%s: exit code %d, want %d", name, got, tt.code)
		}
		for _, words := range tt.words {
			if !strings.Contains(said.String(), words) {
				t.Errorf("%s: %q does not say %q", name, said.String(), words)
			}
		}
	}
}

// Text of strangers cannot move the cursor, and every line says who speaks.
func TestReportCleansText(t *testing.T) {
	var said bytes.Buffer
	Report(context.Background(), &said, "bundle", errors.New("one\x1b[2Jtwo\nthree"))
	want := "bundle: error: one\\u001b[2Jtwo\nbundle:   three\n"
	if said.String() != want {
		t.Errorf("got %q, want %q", said.String(), want)
	}
}

// What to do about a place that can't be read depends on what is wrong with it.
func TestReportUnreachable(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"later":               {&registry.UnreachableError{}, "running it again is right"},
		"unknown authority":   {&registry.UnreachableError{Err: &tls.CertificateVerificationError{}}, "--ca-file"},
		"without TLS":         {&registry.UnreachableError{Host: "reg.example:5000", Err: http.ErrSchemeMismatch}, "--plain-http-host reg.example:5000"},
		"client certificate":  {&registry.UnreachableError{Err: tls.AlertError(116)}, "--cert-file and --key-file"},
		"web page":            {&registry.UnreachableError{Why: registry.WhyPage}, "a network that wants a login first"},
		"wrong":               {&registry.UnreachableError{Why: registry.WhyWrong}, "running it again changes nothing"},
		"no repository":       {&registry.NotFoundError{Ref: "oci://reg.example/shop"}, "`bundle list`"},
		"no chart repository": {&registry.NotFoundError{Ref: "https://charts.example/index.yaml"}, "index.yaml lies below it"},
	}
	for name, tt := range tests {
		var said bytes.Buffer
		Report(context.Background(), &said, "bundle", fmt.Errorf("reading: %w", tt.err))
		if !strings.Contains(said.String(), "hint: ") || !strings.Contains(said.String(), tt.want) {
			t.Errorf("%s: no %q in\n%s", name, tt.want, said.String())
		}
	}
}
