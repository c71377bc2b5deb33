package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A run that is killed at whatever moment leaves a tag that leads to all or to what
// it led to before, and nothing beside its place but what it can go on from. The
// next run makes what one makes that was never disturbed.
func TestKilledCopies(t *testing.T) {
	w := newWorldOfFaults(t, targetsOfFaults[rand.IntN(len(targetsOfFaults))])
	archive := filepath.Join(w.dir, "loaded.tar")
	if code, _, errOut := runBundle(t, "save", w.from, archive, "--policy", "none"); code != 0 {
		t.Fatal(errOut)
	}
	for name, tt := range map[string]struct {
		place string
		args  []string
	}{
		"copy":               {"", []string{"copy", w.from, "TO"}},
		"copy into a folder": {"layout", []string{"copy", w.from, "TO"}},
		"load":               {"", []string{"load", archive, "TO"}},
	} {
		t.Run(name, func(t *testing.T) {
			op := onCommandLine(t, tt.place, "", []*watched{w.source, w.target}, tt.args...)
			(&disturbance{worldOfFaults: w, t: t, op: op, name: name + " killed"}).kill(tt.args)
		})
	}
}

// requests is how many there were in all.
func (w *worldOfFaults) requestsSeen() int64 { return w.source.seen.Load() + w.target.seen.Load() }

func (d *disturbance) kill(args []string) {
	place := d.fresh()
	d.previous(place)
	before := d.requestsSeen()
	if code, _, errOut := d.op.do(place, d.usual...); code != 0 {
		d.t.Fatalf("undisturbed: exit %d: %s", code, errOut)
	}
	d.want = d.stateAt(place)
	requests, killed := d.requestsSeen()-before, 0
	// A run may need fewer requests than the one that was counted, and end before.
	for tries := 0; killed < kills/2 && tries < 6*kills; tries++ {
		place := d.fresh()
		d.previous(place)
		d.readAt(place)
		at := rand.Int64N(requests)
		if d.killAt(at, place, args) {
			killed++
		}
		fail := func(format string, args ...any) {
			d.t.Helper()
			d.t.Errorf("killed at request %d of %d: %s", at, requests, fmt.Sprintf(format, args...))
		}
		if got := d.stateAt(place); got != "" && got != d.want {
			fail("%s", difference(got, d.want))
		}
		if left := d.besides(place, true); len(left) > 0 {
			fail("it leaves %q", left)
		}
		d.again(place, fail)
		for _, problem := range d.target.saw() {
			fail("%s", problem)
		}
	}
	if killed < kills/2 {
		d.t.Errorf("only %d were killed", killed)
	}
}

// killAt runs the program and kills it after so many requests, if it has not ended.
func (d *disturbance) killAt(at int64, place string, args []string) bool {
	var words []string
	for _, word := range args {
		words = append(words, strings.ReplaceAll(word, "TO", place))
	}
	cmd := bundleProgram(d.t, slices.Concat(words, []string{"--key", "vendor.pub", "--quiet"}, d.usual)...)
	return d.killProgram(cmd.Start, cmd.Wait, func() { _ = cmd.Process.Kill() }, d.requestsSeen()+at)
}

// killProgram lets a program run until there were so many requests.
func (w *worldOfFaults) killProgram(start, wait func() error, kill func(), until int64) bool {
	w.source.slow.Store(true)
	w.target.slow.Store(true)
	defer w.source.slow.Store(false)
	defer w.target.slow.Store(false)
	w.ok(start())
	return killWhen(wait, kill, func() bool { return w.requestsSeen() >= until })
}

// killWhen kills what was started at a moment, if it has not ended before.
func killWhen(wait func() error, kill func(), now func() bool) bool {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	for !now() {
		select {
		case <-done:
			return false
		case <-time.After(100 * time.Microsecond):
		}
	}
	kill()
	<-done
	return true
}

// A lock that is killed leaves the one that was there, or the new one, and nothing
// beside it that the next does not take away.
func TestKilledLock(t *testing.T) {
	w := newWorldOfFaults(t, targetsOfFaults[0])
	want := w.hash("release.lock.yaml")
	w.ok(os.Remove("release.lock.yaml"))
	before := w.requestsSeen()
	if code, _, errOut := runBundle(t, "lock"); code != 0 || w.hash("release.lock.yaml") != want {
		t.Fatalf("undisturbed: exit %d: %s", code, errOut)
	}
	requests := w.requestsSeen() - before
	names := namesHere(t)
	for i := range kills {
		w.ok(os.Remove("release.lock.yaml"))
		w.ok(os.WriteFile(".release.lock.yaml.waybill-left", []byte("half"), 0o600))
		cmd := bundleProgram(t, "lock", "--quiet")
		after := w.requestsSeen() + requests - int64(i%3)
		w.killProgram(cmd.Start, cmd.Wait, func() { time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond); _ = cmd.Process.Kill() }, after)
		if data, err := os.ReadFile("release.lock.yaml"); err == nil && w.hash("release.lock.yaml") != want {
			t.Errorf("it leaves half a lock:\n%s", data)
		}
		w.ok(os.RemoveAll("release.lock.yaml"))
		if code, _, errOut := runBundle(t, "lock"); code != 0 || w.hash("release.lock.yaml") != want {
			t.Errorf("the next lock: exit %d: %s", code, errOut)
		}
		if now := namesHere(t); strings.Join(now, " ") != strings.Join(names, " ") {
			t.Errorf("there is %q, and was %q", now, names)
		}
	}
}
