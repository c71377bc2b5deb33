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
