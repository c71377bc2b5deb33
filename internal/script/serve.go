package script

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptEnv is what of a script's environment a program in the background gets.
var scriptEnv = []string{"PATH", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR", "NO_PROXY", "COSIGN_PASSWORD"}

// A background program is one that a script has started and not stopped.
type background struct {
	cmd    *exec.Cmd
	stderr *os.File
}

// serving starts `bundle serve` and stops it, which must end well.
func serving() func(*testscript.TestScript, bool, []string) {
	running := map[*testscript.TestScript]map[string]*background{}
	return func(ts *testscript.TestScript, neg bool, args []string) {
		switch {
		case neg || len(args) < 2:
			ts.Fatalf("usage: serving NAME LOCATION [FLAG…] | serving stop NAME")
		case args[0] == "stop":
			stopServing(ts, running[ts][args[1]])
			delete(running[ts], args[1])
		default:
			if running[ts] == nil {
				running[ts] = map[string]*background{}
			}
			running[ts][args[0]] = startServing(ts, args[0], args[1:])
		}
	}
}

// startServing waits for the first line, which is the address.
func startServing(ts *testscript.TestScript, name string, args []string) *background {
	cmd := exec.Command(lookPath(ts, "bundle"), append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	for _, key := range scriptEnv {
		cmd.Env = append(cmd.Env, key+"="+ts.Getenv(key))
	}
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	stderr, err := os.Create(ts.MkAbs(name + ".stderr"))
	ts.Check(err)
	cmd.Stderr = stderr
	ts.Check(cmd.Start())
	b := &background{cmd, stderr}
	ts.Defer(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = stderr.Close() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		ts.Fatalf("bundle serve says no address; on stderr: %s", ts.ReadFile(name+".stderr"))
	}
	_, host, _ := strings.Cut(strings.TrimSpace(line), "://")
	ts.Setenv(name, host)
	return b
}

func stopServing(ts *testscript.TestScript, b *background) {
	if b == nil {
		ts.Fatalf("nothing of that name is running")
	}
	ts.Check(b.cmd.Process.Signal(os.Interrupt))
	done := make(chan error, 1)
	go func() { done <- b.cmd.Wait() }()
	select {
	case err := <-done:
		ts.Check(err)
	case <-time.After(time.Minute):
		ts.Fatalf("bundle serve does not end")
	}
}

func lookPath(ts *testscript.TestScript, program string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, program); isFile(path) {
			return path
		}
	}
	ts.Fatalf("%s", fmt.Sprintf("there is no %s in PATH", program))
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
