package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childVariable in the environment makes a test, run again as a process of its own, the parent of a cluster.
const childVariable = "WAYBILL_CLUSTER_CHILD"

// describe prints the folder and the processes of a group for the test, then waits to be killed.
func describe(g *group, folder string, members ...int) {
	fmt.Println("cluster", folder, strings.Trim(fmt.Sprint(append(members, g.leader.Process.Pid, g.keeper.Process.Pid)), "[]"))
	select {}
}

func TestGroupEndsWhenItsParentIsKilled(t *testing.T) {
	if folder := os.Getenv(childVariable); folder != "" {
		g, err := startGroup(folder)
		if err != nil {
			t.Fatal(err)
		}
		sleep, err := exec.LookPath("sleep")
		if err != nil {
			t.Fatal(err)
		}
		p, err := g.start(sleep, folder, "1000")
		if err != nil {
			t.Fatal(err)
		}
		describe(g, folder, p.pid)
	}
	folder := t.TempDir()
	killChild(t, folder)
}

func TestClusterEndsWhenItsParentIsKilled(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		c, err := Start(context.Background(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var members []int
		for _, p := range c.programs.programs {
			members = append(members, p.pid)
		}
		describe(c.programs, c.dir, members...)
	}
	ForTest(t) // skips where there are no programs
	killChild(t, "yes")
}

// killChild runs the calling test as a child, kills it with its whole process group, and sees that all processes it
// named and its folder are gone.
func killChild(t *testing.T, variable string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"="+variable)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	folder, processes := readDescription(t, bufio.NewScanner(out))
	for _, pid := range processes {
		if !alive(pid) {
			t.Errorf("process %d does not run", pid)
		}
	}
	if err := syscall.Kill(-child.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left := false
		for _, pid := range processes {
			left = left || alive(pid)
		}
		_, err := os.Stat(folder)
		if !left && errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("twenty seconds after its parent: processes run: %v, folder %s: %v", left, folder, err)
		}
	}
}

func readDescription(t *testing.T, lines *bufio.Scanner) (folder string, processes []int) {
	t.Helper()
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 3 || words[0] != "cluster" {
			t.Log(lines.Text())
			continue
		}
		for _, word := range words[2:] {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			processes = append(processes, pid)
		}
		return words[1], processes
	}
	t.Fatalf("the child ended before it had started its programs: %v", lines.Err())
	return "", nil
}

// alive reports whether a process runs. One that ended and that nobody has asked for (as in containers whose first
// process asks for none) does not.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	if runtime.GOOS != "linux" {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(after, []byte("Z"))
}

func TestProgramThatEndsAtOnceIsNamedWithItsLog(t *testing.T) {
	folder := t.TempDir()
	g, err := startGroup(folder)
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.start("/bin/sh", folder, "-c", "echo no such flag; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	err = p.waitUntil(t.Context(), func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "sh ended (exit status 3)") || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("error: %v", err)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
}
