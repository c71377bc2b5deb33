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
// can move its cursor and that somebody sits at. A build server may give a
// terminal too; it says so in CI.
func CanDraw(stream any, getenv func(string) string) bool {
	ci := getenv("CI")
	return IsTerminal(stream) && getenv("TERM") != "dumb" && (ci == "" || ci == "false")
}
