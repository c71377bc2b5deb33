//go:build unix

package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"waybill/internal/registrytest"
)

// A terminal that is gone ends a run as an interrupt does, unless it was started to
// outlive it, as by nohup.
func TestHangUp(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "bundle")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	for name, trap := range map[string]string{"as usual": "", "ignored": "trap '' HUP; "} {
		t.Run(name, func(t *testing.T) {
			waiting := make(chan struct{}, 100)
			reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
				if !strings.Contains(r.URL.Path, "/manifests/") {
					return nil
				}
				waiting <- struct{}{}
				<-r.Context().Done()
				return nil
			}})
			var errOut bytes.Buffer
			cmd := exec.Command("sh", "-c", trap+`exec "$0" "$@"`, program, "save", "oci://"+reg.Host+"/shop:1.0.0", "shop.tar")
			cmd.Stderr = &errOut
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-waiting:
			case <-time.After(20 * time.Second):
				_ = cmd.Process.Kill()
				t.Fatal("it asks for nothing")
			}
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			if trap != "" {
				select {
				case <-ended:
					t.Fatalf("it does not outlive the terminal: %s", errOut.String())
				case <-time.After(300 * time.Millisecond):
				}
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				_ = cmd.Process.Kill()
				t.Fatal("it does not end")
			}
			if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(errOut.String(), "interrupted") {
				t.Errorf("exit %d: %s", code, errOut.String())
			}
		})
	}
}
