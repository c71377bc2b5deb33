//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// The names by which a process of the site calls itself.
const (
	firstName    = "waybill-site"
	programsName = "waybill-site-programs"
	readyLine    = "ready\n"
)

// Main is called first by the main or TestMain of a program that starts sites. In
// a process that is a part of one it does that part and does not return.
func Main() {
	var part func(dir string) (code int, err error)
	switch os.Args[0] {
	case firstName:
		part = first
	case programsName:
		part = programs
	default:
		return
	}
	code, err := part(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// first is the first process of the namespaces: it mounts, lets another process
// start the programs, and buries whom nobody else asks for. When its input ends,
// so does all else.
func first(dir string) (int, error) {
	if err := mount(dir); err != nil {
		return 0, fmt.Errorf("mounting: %w", err)
	}
	if err := syscall.Sethostname([]byte(Name)); err != nil {
		return 0, fmt.Errorf("naming the machine: %w", err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{programsName, dir}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid == cmd.Process.Pid {
			return status.ExitStatus(), err
		}
	}
}

// programs builds the network, starts all programs and watches the gap until it
// is killed.
func programs(dir string) (int, error) {
	paths := map[string]string{}
	if err := readJSON(filepath.Join(dir, "programs.json"), &paths); err != nil {
		return 0, err
	}
	failed, err := connect(paths["ip"], filepath.Join(dir, "dialled"))
	if err != nil {
		return 0, fmt.Errorf("building the network: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	running, err := startPrograms(ctx, dir, paths)
	if err != nil {
		return 0, err
	}
	if _, err := io.WriteString(os.Stdout, readyLine); err != nil {
		return 0, err
	}
	err = <-failed
	return 0, errors.Join(err, running.Stop())
}
