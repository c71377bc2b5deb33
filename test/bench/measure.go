//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A measurement is what one run of a program took.
type measurement struct {
	Wall   time.Duration `json:"wall"`
	CPU    time.Duration `json:"cpu"`    // of the program itself, user and system
	Memory int64         `json:"memory"` // the most it held at once, in bytes
}

// environment is what programs under test see: nobody's credentials, caches or
// configuration.
func (b *bench) environment() []string {
	return []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + b.scratch, "REGISTRY_AUTH_FILE=" + b.home + "/auth.json"}
}

// measure runs a program to its end.
func (b *bench) measure(ctx context.Context, program string, args ...string) (measurement, error) {
	syscall.Sync() // what was written before is no part of it
	cmd := exec.CommandContext(ctx, program, args...)
	var talk bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.scratch, b.environment(), &talk, &talk
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	if err != nil {
		return measurement{}, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, lastLines(talk.String()))
	}
	return measurement{Wall: took, CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), Memory: peak(cmd.ProcessState)}, nil
}

// peak is the most memory that a process held at once: Linux counts in KiB.
func peak(state *os.ProcessState) int64 {
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		return usage.Maxrss << 10
	}
	return 0
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// median is the one in the middle by wall time, with the most memory of all.
func median(all []measurement) measurement {
	slices.SortFunc(all, func(a, b measurement) int { return int(a.Wall - b.Wall) })
	middle := all[len(all)/2]
	for _, m := range all {
		middle.Memory = max(middle.Memory, m.Memory)
	}
	return middle
}
