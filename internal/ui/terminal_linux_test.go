package ui

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Bars are drawn on a terminal that somebody looks at, and nowhere else.
func TestCanDraw(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	tests := map[string]struct {
		rows uint16
		env  func(string) string
		want bool
	}{
		"a terminal":              {24, env("TERM", "xterm"), true},
		"not a build server":      {24, env("CI", "false"), true},
		"a build server":          {24, env("CI", "true"), false},
		"a terminal that is dumb": {24, env("TERM", "dumb"), false},
		"one without a size":      {0, env("TERM", "xterm"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := CanDraw(terminalOf(t, tt.rows), tt.env); got != tt.want {
				t.Errorf("CanDraw is %t, want %t", got, tt.want)
			}
		})
	}
	if CanDraw(&bytes.Buffer{}, env()) {
		t.Error("a buffer is taken for a terminal")
	}
}

// terminalOf is a terminal of 80 columns.
func terminalOf(t *testing.T, rows uint16) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { slave.Close() })
	return slave
}
