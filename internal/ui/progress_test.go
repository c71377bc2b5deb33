package ui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Without a terminal a step is a line at its begin and one at its end, with
// what is known of how much it is.
func TestProgressLines(t *testing.T) {
	tests := map[string]struct {
		step Step
		work func(*Progress)
		want string
	}{
		"items and bytes": {
			Step{Doing: "pushing to there", Did: "pushed to there", Unit: "blob", Items: 2, Bytes: 3 << 20},
			func(p *Progress) {
				p.Start("one")
				p.Advance(1 << 20)
				p.Finish("one")
				p.Advance(2 << 20)
				p.Finish("two") // that was never started
			},
			"bundle: pushing to there: 2 blobs, 3.0 MiB\nbundle: pushed to there: 2 blobs, 3.0 MiB (1s)\n",
		},
		"a total that comes later": {
			Step{Doing: "checking", Did: "checked", Unit: "manifest"},
			func(p *Progress) {
				p.Total(5, 0)
				p.Finish("one")
			},
			"bundle: checking\nbundle: checked: 1 manifest (1s)\n",
		},
		"nothing to count": {
			Step{Doing: "tagging", Did: "tagged"}, func(*Progress) {},
			"bundle: tagging\nbundle: tagged (1s)\n",
		},
		"a note": {
			Step{Doing: "pushing", Did: "pushed", Unit: "blob", Items: 1},
			func(p *Progress) { p.Notef("%d there already", 1) },
			"bundle: pushing: 1 blob\nbundle: pushed: 1 there already (1s)\n",
		},
		"a step that fails says no end": {
			Step{Doing: "pushing", Did: "pushed"}, func(p *Progress) { p.Close() },
			"bundle: pushing\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said stamped
				p := NewTalk(&said, "bundle", TalkOptions{}).Progress(tt.step)
				defer p.Close()
				time.Sleep(time.Second)
				tt.work(p)
				p.End()
				if said.String() != tt.want {
					t.Errorf("said\n%swant\n%s", said.String(), tt.want)
				}
			})
		})
	}
}

// However long something takes, there is never half a minute without a line,
// and the line names what is being waited for.
func TestProgressIsNeverSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said stamped
		talk := NewTalk(&said, "bundle", TalkOptions{})
		p := talk.Progress(Step{Doing: "pushing to there", Did: "pushed", Unit: "blob", Items: 5, Bytes: 4096})
		p.Start("sha256:aaa")
		time.Sleep(29 * time.Second)
		talk.Sayf("something else")
		time.Sleep(61 * time.Second)
		p.Finish("sha256:aaa")
		p.Advance(2048)
		for _, name := range []string{"b", "c", "d", "e\x1b[2J"} {
			p.Start(name)
		}
		time.Sleep(61 * time.Second)
		p.End()
		said.wantNoGap(t, 30*time.Second)
		for _, want := range []string{
			"bundle: still pushing to there: 0 of 5 blobs, 0 B of 4.0 KiB; waiting for sha256:aaa (49s)\n",
			"bundle: still pushing to there: 1 of 5 blobs, 2.0 KiB of 4.0 KiB; waiting for b (19s), c (19s), d (19s) and 1 more\n",
		} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("said\n%swant\n%s", said.String(), want)
			}
		}
	})
}

// A hook that tells only what is begun names what is waited for too.
func TestProgressWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said stamped
		p := NewTalk(&said, "bundle", TalkOptions{}).Progress(Step{Doing: "resolving", Did: "resolved", Unit: "chart", Items: 2})
		p.Waiting("index.yaml from charts.example")
		time.Sleep(25 * time.Second)
		p.End()
		if want := "still resolving: 0 of 2 charts; waiting for index.yaml from charts.example (20s)\n"; !strings.Contains(said.String(), want) {
			t.Errorf("said\n%swant\n%s", said.String(), want)
		}
	})
}

// The steps of a command are one in the other: the newest speaks, and a brief
// one or the command itself only when the silence would be long.
func TestProgressWithinRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said stamped
		talk := NewTalk(&said, "bundle", TalkOptions{})
		command := talk.Running("`bundle build`")
		time.Sleep(15 * time.Second)
		opening := talk.Progress(Step{Doing: "opening there", Did: "opened there", Brief: true})
		time.Sleep(17 * time.Second)
		opening.End()
		time.Sleep(21 * time.Second)
		command.Close()
		time.Sleep(time.Hour)
		want := "bundle: still opening there (5s)\nbundle: still running `bundle build` (40s)\n"
		if said.String() != want {
			t.Errorf("said\n%swant\n%s", said.String(), want)
		}
	})
}

// While somebody is asked something, no line crosses the question.
func TestProgressWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said stamped
		talk := NewTalk(&said, "bundle", TalkOptions{Bars: true})
		command := talk.Running("`bundle keygen`")
		defer command.Close()
		answered := talk.Asking()
		time.Sleep(time.Hour)
		answered()
		if said.String() != "" {
			t.Errorf("said %q", said.String())
		}
		time.Sleep(time.Minute)
		if said.String() == "" {
			t.Error("said nothing after the answer")
		}
	})
}

// Whatever a command does not know to name, the request that is without an
// answer is named, and the host that is asked again later; nothing secret is.
func TestProgressNamesRequests(t *testing.T) {
	tests := map[string]struct {
		host http.RoundTripper
		read bool
		want string
	}{
		"no answer": {
			roundTripper(func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}), false, "waiting for GET https://registry.example/v2/ (20s)\n",
		},
		"half an answer": {
			roundTripper(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: hanging{req.Context()}}, nil
			}), true, "waiting for GET https://registry.example/v2/ (20s)\n",
		},
		"come later": {
			roundTripper(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody}, nil
			}), true, "waiting for registry.example, which answered 429 Too Many Requests (20s)\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said stamped
				talk := NewTalk(&said, "bundle", TalkOptions{})
				defer talk.Running("`bundle list`").Close()
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://me:secret@registry.example/v2/?token=secret", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := talk.WatchRequests()(tt.host).RoundTrip(req)
				if tt.read && err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				<-ctx.Done()
				if !strings.HasSuffix(said.String(), tt.want) || strings.Contains(said.String(), "secret") {
					t.Errorf("said\n%swant\n%s", said.String(), tt.want)
				}
			})
		})
	}
}

// hanging is a body that gives nothing.
type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

func (hanging) Close() error { return nil }

func TestProgressQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said stamped
		talk := NewTalk(&said, "bundle", TalkOptions{Quiet: true, Bars: true})
		p := talk.Progress(Step{Doing: "pushing", Did: "pushed"})
		p.Start("one")
		time.Sleep(time.Hour)
		p.End()
		if said.String() != "" {
			t.Errorf("said %q", said.String())
		}
	})
}

// On a terminal a step that takes long has a bar and what is waited for below
// it. Lines that others say meanwhile stand whole above it, and at the end the
// bar is gone.
func TestProgressBars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var term terminal
		talk := NewTalk(&term, "bundle", TalkOptions{Bars: true})
		p := talk.Progress(Step{Doing: "pushing to there", Did: "pushed to there", Unit: "blob", Items: 4})
		q := talk.Progress(Step{Doing: "reading here", Did: "read here"})
		p.Start("sha256:aaa")
		p.Finish("sha256:bbb")
		time.Sleep(1050 * time.Millisecond)
		for _, want := range []string{`pushing to there \[=+>-+\] 1s 1 of 4 blobs`, `  waiting for sha256:aaa \(1s\)`, `reading here .* 1s`} {
			if !regexp.MustCompile(want).MatchString(term.String()) {
				t.Errorf("the terminal shows\n%s\nwant %s", term.String(), want)
			}
		}
		want := map[string]bool{}
		var group sync.WaitGroup
		for i := range 20 {
			line := fmt.Sprintf("bundle: line %d", i)
			want[line] = true
			group.Go(func() {
				time.Sleep(time.Duration(i) * 40 * time.Millisecond)
				talk.Sayf("line %d", i)
				p.Finish("x")
			})
		}
		group.Wait()
		p.End()
		q.End()
		for line := range strings.SplitSeq(term.String(), "\n") {
			if !want[line] && line != "bundle: pushed to there: 21 blobs (1.8s)" && line != "bundle: read here (1.8s)" && line != "" {
				t.Errorf("the terminal shows the line %q", line)
			}
			delete(want, line)
		}
		if len(want) > 0 {
			t.Errorf("the terminal shows\n%s\nwithout %v", term.String(), want)
		}
	})
}

// A step that is broken off leaves nothing on the terminal and the cursor at
// the left edge, and so does every moment of a step that is not ended at all.
func TestProgressBarsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var term terminal
		talk := NewTalk(&term, "bundle", TalkOptions{Bars: true})
		p := talk.Progress(Step{Doing: "pushing", Did: "pushed"})
		time.Sleep(time.Second)
		if term.column() != 0 {
			t.Errorf("the cursor stands in column %d", term.column())
		}
		p.Close()
		if strings.Trim(term.String(), "\n") != "" || term.column() != 0 {
			t.Errorf("the terminal shows %q, the cursor stands in column %d", term.String(), term.column())
		}
	})
}

// What is soon done has no bar.
func TestProgressBarsDoNotFlicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var term terminal
		p := NewTalk(&term, "bundle", TalkOptions{Bars: true}).Progress(Step{Doing: "locking", Did: "locked"})
		time.Sleep(200 * time.Millisecond)
		p.End()
		if want := "bundle: locked (200ms)\n"; term.written() != want {
			t.Errorf("wrote %q, want %q", term.written(), want)
		}
	})
}

func TestSizeAndCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 29: "2.5 GiB"} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 blobs", 1: "1 blob", 2: "2 blobs"} {
		if got := Count(n, "blob"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

// stamped notes when each line was written.
type stamped struct {
	mu   sync.Mutex
	text bytes.Buffer
	at   []time.Time
}

func (s *stamped) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	return s.text.Write(b)
}

func (s *stamped) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *stamped) wantNoGap(t *testing.T, most time.Duration) {
	t.Helper()
	for i := 1; i < len(s.at); i++ {
		if gap := s.at[i].Sub(s.at[i-1]); gap > most {
			t.Errorf("nothing was said for %s before line %d of\n%s", gap, i+1, s.String())
		}
	}
}

// terminal is what a terminal shows of what is written to it, as far as bars
// go: lines, the cursor moved up, and all below it erased.
type terminal struct {
	mu  sync.Mutex
	raw bytes.Buffer
}

func (s *terminal) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.Write(b)
}

func (s *terminal) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}

var escape = regexp.MustCompile("\x1b\\[([0-9]*)([A-Za-z])")

func (s *terminal) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines, row, text := []string{""}, 0, s.raw.String()
	for text != "" {
		if m := escape.FindStringSubmatchIndex(text); m != nil && m[0] == 0 {
			switch n, _ := strconv.Atoi(text[m[2]:m[3]]); text[m[4]:m[5]] {
			case "A":
				row -= n
			case "J":
				lines = append(lines[:row], "")
			default:
				lines[row] += text[:m[1]] // unknown: shows in the test
			}
			text = text[m[1]:]
			continue
		}
		if text[0] == '\n' {
			row++
			for len(lines) <= row {
				lines = append(lines, "")
			}
		} else {
			lines[row] += text[:1]
		}
		text = text[1:]
	}
	return lines[:row+1]
}

func (s *terminal) String() string { return strings.Join(s.lines(), "\n") }

func (s *terminal) column() int {
	lines := s.lines()
	return len(lines[len(lines)-1])
}
