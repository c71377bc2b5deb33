package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill/test/cluster"
)

func TestWrongWordsAreUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"up"}, {"down", "x"}, {"build", "x"}, {"build", "node", "x"}, {"up", "a", "b"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestUpStaysUntilInterrupted(t *testing.T) {
	if !cluster.Available() && os.Getenv("WAYBILL_TEST_CLUSTER") != "required" {
		t.Skip(cluster.ErrNoPrograms)
	}
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"up", dir}, write, io.Discard)
		ended <- errors.Join(err, write.CloseWithError(io.ErrUnexpectedEOF))
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %v", err, <-ended)
	}
	if path := strings.TrimSpace(line); path != filepath.Join(dir, "kubeconfig") {
		t.Errorf("printed %q", path)
	}
	if err := run(ctx, []string{"up", dir}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a second one in the same folder: %v", err)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cluster's state is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kubeconfig")); err != nil {
		t.Errorf("the kubeconfig is gone: %v", err)
	}
}
