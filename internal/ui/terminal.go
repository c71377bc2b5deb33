package ui

import (
	"os"

	"golang.org/x/term"
)

// IsTerminal says whether what is read from or written to is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// CanDraw says whether bars can be drawn on what is written to: a terminal that
// has a size, can move its cursor, and that somebody sits at. A build server may
// give a terminal too; it says so in CI.
func CanDraw(stream any, getenv func(string) string) bool {
	ci := getenv("CI")
	if !IsTerminal(stream) || getenv("TERM") == "dumb" || ci != "" && ci != "false" {
		return false
	}
	width, height, err := term.GetSize(int(stream.(*os.File).Fd()))
	return err == nil && width > 0 && height > 0
}
