//go:build linux

package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childVariable in the environment makes a test, run again as a process of its
// own, the parent of a site.
const childVariable = "WAYBILL_NODE_CHILD"

func TestNothingStaysOfASiteWhoseParentIsKilled(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		s := start(t)
		s.run(t, s.client(t), "here", s.pushed(t, "web"))
		until(t, "a container runs", func(context.Context) error { return containerRuns(s.dir) })
		fmt.Println("site", s.dir, s.processes.first.Process.Pid)
		select {}
	}
	requested(t)
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"=yes")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	dir, pid := readSite(t, bufio.NewScanner(out))
	space, err := os.Readlink("/proc/" + pid + "/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	ids := containers(dir)
	if len(controlGroups(ids)) == 0 {
		t.Fatalf("control groups of containers %v are not seen", ids)
	}
	if err := syscall.Kill(-child.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := left(dir, space, ids)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("thirty seconds after its parent: %v", err)
		}
	}
}

func readSite(t *testing.T, lines *bufio.Scanner) (dir, pid string) {
	t.Helper()
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "site" {
			return words[1], words[2]
		}
		t.Log(lines.Text())
	}
	t.Fatalf("the child ended before its site ran: %v", lines.Err())
	return "", ""
}

// containerRuns looks for a process in the control groups of a site.
func containerRuns(dir string) error {
	for _, group := range controlGroups(containers(dir)) {
		if data, err := os.ReadFile(filepath.Join(group, "cgroup.procs")); err == nil && len(data) > 0 {
			return nil
		}
	}
	return errors.New("no container runs")
}

// containers are the names of a site's containers.
func containers(dir string) (ids []string) {
	entries, _ := os.ReadDir(filepath.Join(dir, containersDir)) // none: no container was made yet
	for _, entry := range entries {
		ids = append(ids, entry.Name())
	}
	return ids
}

// controlGroups are those of containers, wherever they are.
func controlGroups(ids []string) (groups []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, _ os.DirEntry, _ error) error {
		if slices.Contains(ids, filepath.Base(path)) {
			groups = append(groups, path)
		}
		return nil // groups of others come and go meanwhile
	})
	return groups
}

// left tells what is there of a site: its folder, control groups, mounts, and
// processes in its namespace.
func left(dir, space string, ids []string) error {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("folder %s is there: %w", dir, err)
	}
	if groups := controlGroups(ids); len(groups) > 0 {
		return fmt.Errorf("control groups are there: %v", groups)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if bytes.Contains(mounts, []byte(dir)) {
		return fmt.Errorf("mounts are there:\n%s", mounts)
	}
	processes, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, process := range processes {
		if in, err := os.Readlink(process); err == nil && in == space {
			return fmt.Errorf("a process is there: %s", process)
		}
	}
	return err
}
