package ui

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// defaultHeartbeat is well inside the half minute after which a silence is a
// fault.
const defaultHeartbeat = 20 * time.Second

// barDelay keeps what is soon done from flickering.
const barDelay = 300 * time.Millisecond

// A Step is a piece of work that may take long.
type Step struct {
	Doing string // what is done, as in "pushing shop 1.0.0 to oci://…"
	Did   string // the same at its end: "pushed shop 1.0.0 to oci://…"
	Unit  string // what is counted, in the singular: "blob"; empty: nothing
	Items int    // how many there are; 0: not known
	Bytes int64  // how large they are together; 0: not known or not counted
	Brief bool   // mostly soon done: no line at its begin and end
}

// A Progress shows how far a step is: as a bar on a terminal, elsewhere as a
// line at its begin and at its end, and one whenever nothing else was said
// for the time of a heartbeat. It names what is being waited for.
//
// End or Close it. Its methods may be called at the same time, also from hooks
// of rooms.
type Progress struct {
	talk  *Talk
	step  Step
	begin time.Time

	mu      sync.Mutex
	items   int   // finished
	bytes   int64 // of what is finished and what is running
	running []running
	waiting running // for hooks that tell no end
	notes   []string

	lines bool     // in lines, also on a terminal
	bar   *mpb.Bar // nil while not drawn
	once  sync.Once
	stop  chan struct{}
	ended chan struct{}
}

// running is an item that was started and is not finished.
type running struct {
	what  string
	since time.Time
}

// Progress begins a step and shows it.
func (t *Talk) Progress(step Step) *Progress {
	p := &Progress{step: step, lines: !t.bars}
	if p.lines && !step.Brief {
		t.Sayf("%s", joined(step.Doing, ": ", amounts(step.Unit, step.Items, step.Bytes)))
	}
	return t.watch(p)
}

// Running is the step that a whole command is: never drawn, and said only when
// its silence would be long.
func (t *Talk) Running(command string) *Progress {
	return t.watch(&Progress{step: Step{Doing: "running " + command, Brief: true}, lines: true})
}

func (t *Talk) watch(p *Progress) *Progress {
	p.talk, p.begin = t, t.now()
	p.step.Doing, p.step.Did = clean(p.step.Doing), clean(p.step.Did)
	p.stop, p.ended = make(chan struct{}), make(chan struct{})
	if t.quiet {
		close(p.ended)
		return p
	}
	t.started(p)
	go p.watch()
	return p
}

// Total says how many items and bytes there are, once it is known.
func (p *Progress) Total(items int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step.Items, p.step.Bytes = items, bytes
}

// Start begins an item; its name is said when it takes long.
func (p *Progress) Start(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, running{clean(what), p.talk.now()})
}

// Advance counts n bytes more; fewer when n is negative, as for what is sent
// again.
func (p *Progress) Advance(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += n
}

// Finish ends an item and counts it, also one that was not started.
func (p *Progress) Finish(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items++
	p.remove(what)
}

// Drop ends an item without counting it.
func (p *Progress) Drop(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(what)
}

func (p *Progress) remove(what string) {
	what = clean(what)
	if i := slices.IndexFunc(p.running, func(r running) bool { return r.what == what }); i >= 0 {
		p.running = slices.Delete(p.running, i, i+1)
	}
}

// Waiting says what is waited for from now on, until the next call or the
// step's end; for hooks that tell a begin and no end. It counts nothing.
func (p *Progress) Waiting(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = running{clean(what), p.talk.now()}
}

// Notef adds something to the line at the end, such as "3 there already".
func (p *Progress) Notef(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// End says that the step is done, and how much that was.
func (p *Progress) End() {
	p.once.Do(func() {
		p.hide()
		p.mu.Lock()
		parts := append([]string{amounts(p.step.Unit, p.items, p.bytes)}, p.notes...)
		p.mu.Unlock()
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if !p.step.Brief {
			text := joined(p.step.Did, ": ", strings.Join(parts, ", "))
			if spent := took(p.elapsed()); spent != "0s" {
				text += " (" + spent + ")"
			}
			p.talk.Sayf("%s", text)
		}
	})
}

// Close ends the showing of a step that did not come to its end; after End it
// does nothing.
func (p *Progress) Close() { p.once.Do(p.hide) }

func (p *Progress) hide() {
	if p.talk.quiet {
		return
	}
	close(p.stop)
	<-p.ended
	p.talk.stopped(p)
	if p.bar != nil {
		p.talk.undraw(p.bar)
	}
}

func (p *Progress) elapsed() time.Duration { return p.talk.now().Sub(p.begin) }

// watch draws the bar, or says from time to time that the step goes on.
func (p *Progress) watch() {
	defer close(p.ended)
	next := p.talk.heartbeat
	if !p.lines {
		next = barDelay
	}
	timer := time.NewTimer(next)
	defer timer.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-timer.C:
		}
		if !p.lines {
			p.bar = p.talk.draw(p)
			continue // the timer rests
		}
		timer.Reset(p.talk.breakSilence())
	}
}

// still is the line of a step that goes on.
func (p *Progress) still() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := joined("still "+p.step.Doing, ": ", p.counts())
	if waits := p.waits(); waits != "" {
		return joined(text, "; ", waits)
	}
	return text + " (" + took(p.elapsed()) + ")"
}

// counts says how far the step is. Call it with the lock held.
func (p *Progress) counts() string {
	var parts []string
	switch {
	case p.step.Unit == "":
	case p.step.Items > 0:
		parts = append(parts, fmt.Sprintf("%d of %s", p.items, Count(p.step.Items, p.step.Unit)))
	case p.items > 0:
		parts = append(parts, Count(p.items, p.step.Unit))
	}
	switch {
	case p.step.Bytes > 0:
		parts = append(parts, Size(p.bytes)+" of "+Size(p.step.Bytes))
	case p.bytes > 0:
		parts = append(parts, Size(p.bytes))
	}
	return strings.Join(parts, ", ")
}

// waits says what is being waited for, the longest first, and the request that
// is without an answer. Call it with the lock held.
func (p *Progress) waits() string {
	const most = 3
	var names []string
	all := p.running
	if p.waiting.what != "" {
		all = append([]running{p.waiting}, all...)
	}
	for _, r := range all[:min(most, len(all))] {
		names = append(names, r.text(p.talk.now()))
	}
	text := joined("", "waiting for ", strings.Join(names, ", "))
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	request := p.talk.requests.oldest(p.talk.now())
	if text == "" {
		return joined("", "waiting for ", request)
	}
	return joined(text, ": ", request)
}

func (r running) text(now time.Time) string { return r.what + " (" + took(now.Sub(r.since)) + ")" }

// fraction is how far the bar is. Bytes are truer than items.
func (p *Progress) fraction() (current, total int64) {
	if p.step.Bytes > 0 {
		return p.bytes, p.step.Bytes
	}
	return int64(p.items), int64(p.step.Items)
}

// amounts says how many and how large.
func amounts(unit string, items int, bytes int64) string {
	var parts []string
	if unit != "" && items > 0 {
		parts = append(parts, Count(items, unit))
	}
	if bytes > 0 {
		parts = append(parts, Size(bytes))
	}
	return strings.Join(parts, ", ")
}

// Count is a number with the name of what is counted, "1 blob" or "2 blobs".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Size is a number of bytes for people: "512 B", "3.2 MiB".
func Size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("% .1f", decor.SizeB1024(n))
}

// took is a time for people.
func took(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// joined puts two texts together, the first alone when there is no second.
func joined(first, separator, second string) string {
	if second == "" {
		return first
	}
	return first + separator + second
}
