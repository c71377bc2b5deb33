//go:build unix

// Package demo_test runs the demo: in a cluster of its own, in that of a
// kubeconfig, and interrupted.
package demo_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"waybill/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }

// programs builds what the demo runs, as `make build` does.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "./cmd/bundle", "./cmd/apply", "./test/cluster/cmd/cluster")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	return dir
}

// demo is the script with folders of its own, like one that a person started:
// in a process group of its own.
func demo(ctx context.Context, temp, programs string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "./demo.sh")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "DEMO_PROGRAMS="+programs, "DEMO_CLUSTER=")
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// onlyWebMoved is what the last status shows.
var onlyWebMoved = regexp.MustCompile(`(?s)only web moved.* kinds +unchanged .* 1 deployed\n.* database +unchanged .* 1 deployed\n.* web +done .* 2 deployed\n.* clock +unchanged .* 1 deployed\n`)

func TestDemo(t *testing.T) {
	c := cluster.ForTest(t) // or skip: the first run starts one of its own from the same programs
	bin := programs(t)
	t.Run("in the cluster there is", func(t *testing.T) {
		showsThatOnlyWebMoves(t, bin, "KUBECONFIG="+c.Kubeconfig())
		wantNotInstalled(t, c)
	})
	t.Run("in a cluster of its own", func(t *testing.T) {
		showsThatOnlyWebMoves(t, bin, "KUBECONFIG="+c.Kubeconfig(), "DEMO_CLUSTER=local")
		wantNotInstalled(t, c)
	})
	t.Run("as the README says", func(t *testing.T) { readmeRuns(t, c, bin) })
	t.Run("interrupted", func(t *testing.T) { endsWhatItStarted(t, bin) })
}

func showsThatOnlyWebMoves(t *testing.T, bin string, env ...string) {
	temp := t.TempDir()
	out, err := demo(t.Context(), temp, bin, env...).CombinedOutput()
	if err != nil || !onlyWebMoved.Match(out) {
		t.Fatalf("%v\n%s", err, out)
	}
	wantNothingLeft(t, temp)
}

func endsWhatItStarted(t *testing.T, bin string) {
	temp := t.TempDir()
	cmd := demo(t.Context(), temp, bin, "DEMO_CLUSTER=local")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "$ apply install") {
			break
		}
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil { // as a terminal does
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("it ended with %v, want exit code 130", err)
	}
	wantNothingLeft(t, temp)
}

// wantNothingLeft looks for files and processes of the demo.
func wantNothingLeft(t *testing.T, temp string) {
	t.Helper()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	wantNothingRunning(t, temp)
}

// wantNothingRunning looks for processes that were started with the folder.
func wantNothingRunning(t *testing.T, temp string) {
	t.Helper()
	running, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range running {
		if words, err := os.ReadFile(file); err == nil && strings.Contains(string(words), temp) {
			t.Errorf("a process is left: %q", strings.ReplaceAll(string(words), "\x00", " "))
		}
	}
}

// wantNotInstalled looks for Helm releases and records of the demo.
func wantNotInstalled(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(c.Config())
	for _, namespace := range []string{"waybill-demo", "waybill-demo-system"} {
		secrets, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(secrets.Items) > 0 {
			t.Errorf("in namespace %s is left: %v, %v", namespace, secrets.Items, err)
		}
	}
}
