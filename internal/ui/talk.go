package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A Talk is the running commentary of a program on stderr, each line with the
// program's name first. It may be used by several goroutines.
type Talk struct {
	mu    sync.Mutex
	w     io.Writer
	name  string
	quiet bool
}

// NewTalk returns a talk that writes to w as the named program; a quiet one
// says only warnings.
func NewTalk(w io.Writer, name string, quiet bool) *Talk {
	return &Talk{w: w, name: name, quiet: quiet}
}

// Name is the name the program was called by.
func (t *Talk) Name() string { return t.name }

// Sayf says how the work goes on.
func (t *Talk) Sayf(format string, args ...any) {
	if !t.quiet {
		t.line("", format, args...)
	}
}

// Warnf says what somebody should look at; the work goes on.
func (t *Talk) Warnf(format string, args ...any) { t.line("warning: ", format, args...) }

// Hintf says what to type next.
func (t *Talk) Hintf(format string, args ...any) {
	if !t.quiet {
		t.line("hint: ", format, args...)
	}
}

func (t *Talk) line(kind, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	writeLines(t.w, t.name, kind, fmt.Sprintf(format, args...))
}

// writeLines writes text with the program's name before each of its lines;
// the kind stands before the first.
func writeLines(w io.Writer, name, kind, text string) {
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if i > 0 {
			kind = strings.Repeat(" ", 2)
		}
		fmt.Fprintf(w, "%s: %s%s\n", name, kind, clean(line))
	}
}

// clean takes out what could move the cursor of a terminal: bytes from
// strangers reach error messages.
func clean(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, line)
}

// JSON writes v to w as one indented JSON document.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
