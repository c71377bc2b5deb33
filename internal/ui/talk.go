package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
)

// A Talk is the running commentary of a program on stderr, each line with the
// program's name first. It may be used by several goroutines. A program has one:
// only then do its lines and its bars not cross.
type Talk struct {
	name  string
	quiet bool
	bars  bool
	now   func() time.Time

	mu       sync.Mutex // held while something is written
	w        io.Writer
	said     time.Time     // when the last line was written
	drawn    *mpb.Progress // the bars on the terminal; nil while there is none
	barCount int
}

// TalkOptions are the options of [NewTalk]. The zero value says everything, in
// lines, and reads the machine's clock.
type TalkOptions struct {
	Quiet bool             // say only warnings
	Bars  bool             // show progress as bars: for terminals
	Now   func() time.Time // the clock; nil for the machine's
}

// NewTalk returns a talk that writes to w as the named program.
func NewTalk(w io.Writer, name string, opts TalkOptions) *Talk {
	t := &Talk{w: w, name: name, quiet: opts.Quiet, bars: opts.Bars && !opts.Quiet, now: opts.Now}
	if t.now == nil {
		t.now = time.Now
	}
	t.said = t.now()
	return t
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
	t.say(kind, fmt.Sprintf(format, args...))
}

// say writes a line. Call it with the lock held.
func (t *Talk) say(kind, text string) {
	t.said = t.now()
	writeLines(writerFunc(t.write), t.name, kind, text)
}

// sayAfter says the text when nothing was said for the given time, and returns
// when to ask again.
func (t *Talk) sayAfter(silence time.Duration, text func() string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := silence - t.now().Sub(t.said)
	if left > 0 {
		return left
	}
	t.say("", text())
	return silence
}

// Writer writes what is no line of the talk, as a log of requests, to the same
// place, each write whole.
func (t *Talk) Writer() io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.write(b)
	})
}

// write writes above the bars while there are any.
func (t *Talk) write(b []byte) (int, error) {
	if t.drawn != nil {
		if n, err := t.drawn.Write(b); err == nil {
			return n, nil
		}
	}
	return t.w.Write(b)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

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
