package ui

import (
	"io"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// barRefresh is how often bars are drawn.
const barRefresh = 100 * time.Millisecond

// draw puts a bar for p below the lines of the talk. From the first bar to the
// last, lines go through the bars' writer, which puts them above.
func (t *Talk) draw(p *Progress) *mpb.Bar {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drawn == nil {
		// The cursor rests at the left edge below the bars after every drawing, so
		// that whatever ends the program leaves a clean line.
		t.drawn = mpb.New(mpb.WithOutput(t.w), mpb.ForceTTY(), mpb.WithAutoRefresh(), mpb.WithRefreshRate(barRefresh))
	}
	bar, err := t.drawn.Add(0, p.filler(), // without a total of its own a bar is never complete by itself
		mpb.PrependDecorators(decor.Any(p.label)),
		mpb.AppendDecorators(decor.Any(p.numbers)),
		mpb.BarExtender(mpb.BarFillerFunc(p.waitingRow), false),
		mpb.BarRemoveOnComplete(),
	)
	if err != nil { // the terminal is gone
		t.drawn = nil
		return nil
	}
	t.barCount++
	return bar
}

// undraw takes a bar away, and with the last one the bars' writer. Nothing can
// be said in between.
func (t *Talk) undraw(bar *mpb.Bar) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bar.Abort(true)
	if t.barCount--; t.barCount == 0 && t.drawn != nil {
		t.drawn.Wait()
		t.drawn = nil
	}
}

// filler is a bar where the end is known and a spinner where not.
func (p *Progress) filler() mpb.BarFiller {
	bar, spinner := mpb.BarStyle().Build(), mpb.SpinnerStyle().PositionLeft().Build()
	return mpb.BarFillerFunc(func(w io.Writer, stat decor.Statistics) error {
		p.mu.Lock()
		stat.Current, stat.Total = p.fraction()
		p.mu.Unlock()
		if stat.Total <= 0 {
			return spinner.Fill(w, stat)
		}
		stat.Current = max(0, min(stat.Current, stat.Total))
		return bar.Fill(w, stat)
	})
}

// label is the step, in at most half of the line.
func (p *Progress) label(stat decor.Statistics) string {
	return runewidth.Truncate(clean(p.step.Doing), stat.AvailableWidth/2, "…")
}

func (p *Progress) numbers(decor.Statistics) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return joined(p.elapsed().Truncate(time.Second).String(), " ", p.counts())
}

// waitingRow is the row below the bar: what is being waited for.
func (p *Progress) waitingRow(w io.Writer, stat decor.Statistics) error {
	p.mu.Lock()
	text := p.waits()
	p.mu.Unlock()
	if text == "" {
		return nil // no row
	}
	_, err := io.WriteString(w, runewidth.Truncate("  "+text, stat.AvailableWidth, "…")+"\n")
	return err
}
