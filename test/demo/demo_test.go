// Package demo_test runs what `make demo` runs, on a cluster of its own.
package demo_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDemo(t *testing.T) {
	if os.Getenv("WAYBILL_TEST_CLUSTER") == "" {
		t.Skip("make test runs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "../../demo/demo.sh")
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(os.Environ(), "KUBECONFIG=", "HOME="+t.TempDir()) // no kubeconfig of the user
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.CommandContext(ctx, "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
	}
	cache, err := os.UserCacheDir() // of the cluster's programs
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+cache)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"waybill-demo 1.0.0: nothing to do, nothing was written",
		"settings   unchanged  unchanged",
		"web        upgrade    done       1 -> 2",
		"--- that was it",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demonstration does not say %q:\n%s", want, out.String())
		}
	}
}
