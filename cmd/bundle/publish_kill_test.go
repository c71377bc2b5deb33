package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waybill/internal/registrytest"
)

// kills is how many builds are killed.
const kills = 6

// A build that is killed at whatever moment leaves the tag on the previous
// bundle, and the next build completes.
func TestKilledBuild(t *testing.T) {
	workshop(t)
	var seen, slow atomic.Int64 // requests, and the one that takes long enough to be killed in it
	reg := registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault {
		if seen.Add(1) == slow.Load() {
			time.Sleep(200 * time.Millisecond)
		}
		return nil
	}})
	build := func(location, note string) *exec.Cmd {
		return bundleProgram(t, "build", "--no-images", "--quiet", "-t", location, "--annotation", "note="+note, "--signing-key", "vendor.key")
	}
	whole := "oci://" + reg.Host + "/whole:current"
	before := int64(0)
	for _, note := range []string{"old", "new"} {
		before = seen.Load()
		if out, err := build(whole, note).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	want, requests := tagged(t, reg, "whole", "current"), seen.Load()-before
	killed := 0
	for i := range int64(kills) {
		repository := fmt.Sprintf("shop-%d", i)
		location := "oci://" + reg.Host + "/" + repository + ":current"
		if out, err := build(location, "old").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		old := tagged(t, reg, repository, "current")
		at := seen.Load() + 1 + (i*requests+rand.Int64N(requests))/kills // from early to late
		slow.Store(at)
		cmd := build(location, "new")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if killWhen(cmd.Wait, func() { _ = cmd.Process.Kill() }, func() bool { return seen.Load() >= at }) {
			killed++
		}
		// The last request may be on its way still: the tag itself, for one.
		got := tagged(t, reg, repository, "current")
		if got != old && got != want {
			t.Errorf("killed at request %d: the tag names %q", at, got)
		}
		if got == want {
			digestAt(t, location, "--key", "vendor.pub") // then all of it is there
		}
		if out, err := build(location, "new").CombinedOutput(); err != nil {
			t.Errorf("killed at request %d: the next build fails: %v: %s", at, err, out)
		}
		if got := digestAt(t, location, "--key", "vendor.pub"); got != want {
			t.Errorf("killed at request %d: after the next build the tag names %s, want %s", at, got, want)
		}
	}
	if killed < kills/2 {
		t.Errorf("only %d builds were killed", killed)
	}
}

// An interrupted build ends soon, says so, and leaves the tag and no session.
func TestInterruptedBuild(t *testing.T) {
	workshop(t)
	var hang atomic.Bool
	waiting := make(chan struct{}, 1)
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if !hang.Load() || r.Method != http.MethodPut {
			return nil
		}
		select {
		case waiting <- struct{}{}:
		default:
		}
		return &registrytest.Fault{Hang: true}
	}})
	location := "oci://" + reg.Host + "/shop:current"
	args := []string{"build", "--no-images", "--quiet", "-t", location, "--unsigned"}
	if out, err := bundleProgram(t, append(args, "--annotation", "note=old")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	old := tagged(t, reg, "shop", "current")
	hang.Store(true)
	cmd := bundleProgram(t, append(args, "--annotation", "note=new")...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-waiting
	interrupt(t, cmd)
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(errOut.String(), "interrupted") {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
	if got := tagged(t, reg, "shop", "current"); got != old {
		t.Errorf("the tag names %s", got)
	}
	if n := reg.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// bundleProgram is the program as a process of its own: this test's binary, which
// is it when it is called so.
func bundleProgram(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = slices.Concat([]string{"bundle"}, args)
	return cmd
}

// interrupt interrupts a program as a person does, and wants it to end soon.
func interrupt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	began := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %s to end", took)
	}
}
