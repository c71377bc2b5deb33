//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cuts measures what is left to do after bundle was killed when it had written nine
// tenths of a workload.
func (b *bench) cuts(ctx context.Context, w workload) error {
	t := b.tools[0]
	file := filepath.Join(b.scratch, "cut.tar")
	for _, what := range []string{doCutCopy, doCutSave, doCutLoad} {
		err := b.onTarget(func(target *registry) error {
			args := map[string][]string{
				doCutCopy: t.copy(b.from(w), target.host+"/mirror:"+w.name),
				doCutSave: t.save(b.from(w), file),
				doCutLoad: t.load(file, target.host+"/mirror:"+w.name),
			}[what]
			if err := b.cut(ctx, w.bytes()*9/10, b.programs[ours], args...); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return b.take(ctx, w.name, what, t, args)
		})
		if err != nil {
			return err
		}
	}
	return b.sweep()
}

func (b *bench) onTarget(do func(*registry) error) error {
	target, err := b.startRegistry()
	if err != nil {
		return err
	}
	return errors.Join(do(target), target.stop())
}

// cut runs a program and kills it once it has written so many bytes.
func (b *bench) cut(ctx context.Context, after int64, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	var talk bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = b.scratch, b.environment(), &talk
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("it ended (%w) before it was to be killed: %s", err, lastLines(talk.String()))
		case <-time.After(time.Millisecond):
		}
		if hasWritten(cmd.Process.Pid) >= after {
			_ = cmd.Process.Kill()
			if err := <-ended; err == nil {
				return errors.New("it ended before it was killed")
			}
			return nil
		}
	}
}

// hasWritten is how many bytes a process has written, to files and connections:
// proc(5), /proc/pid/io. What it reads may be more than what it carries.
func hasWritten(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "wchar: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}
