package interop_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// find is the path of a program: in the folder of peers, else in PATH.
func (b *bench) find(name string) (string, error) {
	if name == "bundle" {
		return b.bundle, nil
	}
	if path, err := exec.LookPath(filepath.Join(b.peers, name)); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is absent: it is neither in %s (make interop) nor in PATH (skopeo and docker-registry are packages of Debian)", name, b.peers)
	}
	return path, nil
}

// need skips the test when a program is absent.
func (b *bench) need(t *testing.T, name string) {
	t.Helper()
	if _, err := b.find(name); err != nil {
		t.Skip(err)
	}
}

// run runs a program in the bench's folder and returns its standard output. An
// error tells the command and all that it said. Nobody's credentials, caches or
// configuration are seen, and HTTPS leads to a port where nobody listens.
func (b *bench) run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	path, err := b.find(name)
	if err != nil {
		t.Skip(err)
	}
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, &out, &talk
	cmd.Env = []string{
		"HOME=" + b.path("home"), "PATH=" + os.Getenv("PATH"), "COSIGN_PASSWORD=interop",
		"HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1",
	}
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, &out, &talk)
	}
	return out.String(), nil
}

// must is run for a program that has to succeed.
func (b *bench) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := b.run(t, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refused wants bundle verify to refuse (exit code 3) what carries no signature
// by our key.
func (b *bench) refused(t *testing.T, location string) {
	t.Helper()
	_, err := b.run(t, "bundle", "verify", location, "--key", "ours.pub")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Fatalf("want exit code 3 of verifying %s, got: %v", location, err)
	}
}
