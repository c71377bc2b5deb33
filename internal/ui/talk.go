package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
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

	heartbeat time.Duration

	mu       sync.Mutex // held while something is written
	w        io.Writer
	said     time.Time     // when the last line was written
	drawn    *mpb.Progress // the bars on the terminal; nil while there is none
	barCount int
	live     []*Progress // steps that go on, the newest last
	asking   int         // questions to the person in front; nothing is said meanwhile

	requests requests
}

// TalkOptions are the options of [NewTalk]. The zero value says everything, in
// lines, and reads the machine's clock.
type TalkOptions struct {
	Quiet bool             // say only warnings
	Bars  bool             // show progress as bars: for terminals
	Now   func() time.Time // the clock; nil for the machine's
	// Heartbeat is how long nothing is said at most while something goes on
	// without bars; 20 seconds when 0.
	Heartbeat time.Duration
}

// NewTalk returns a talk that writes to w as the named program.
func NewTalk(w io.Writer, name string, opts TalkOptions) *Talk {
	t := &Talk{w: w, name: name, quiet: opts.Quiet, bars: opts.Bars && !opts.Quiet, now: opts.Now, heartbeat: opts.Heartbeat}
	if t.now == nil {
		t.now = time.Now
	}
	if t.heartbeat == 0 {
		t.heartbeat = defaultHeartbeat
	}
	t.said = t.now()
	return t
}

// Name is the name the program was called by.
func (t *Talk) Name() string { return t.name }

// Sayf says how the work goes on. What is put into the format is shown on one
// line; an error, and a text that is all there is to say, may have several.
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
	if format != "%s" { // which is a text of ours as a whole
		args = onOneLine(args, true)
	}
	t.say(kind, fmt.Sprintf(format, args...))
}

// say writes a line. Call it with the lock held.
func (t *Talk) say(kind, text string) {
	t.said = t.now()
	writeLines(writerFunc(t.write), t.name, kind, text)
}

// breakSilence says how far the newest step is when nothing was said for the
// time of a heartbeat and no bar shows it. It returns when to ask again.
func (t *Talk) breakSilence() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.heartbeat - t.now().Sub(t.said)
	if left > 0 {
		return left
	}
	if len(t.live) > 0 && t.drawn == nil && t.asking == 0 {
		t.say("", t.live[len(t.live)-1].still())
	}
	return t.heartbeat
}

// Asking keeps the talk silent while a person is asked something on the same
// terminal, until the returned function is called. Lines of others still come.
func (t *Talk) Asking() (answered func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.asking--
	})
}

func (t *Talk) started(p *Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = append(t.live, p)
}

func (t *Talk) stopped(p *Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = slices.DeleteFunc(t.live, func(q *Progress) bool { return p == q })
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

// JSON writes v to w as one indented JSON document.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
