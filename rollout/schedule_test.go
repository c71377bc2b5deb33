package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill/bundle"
)

func TestOrder(t *testing.T) {
	staged := func(name, stage string, needs ...string) bundle.Component {
		return bundle.Component{Name: name, Stage: stage, Needs: needs}
	}
	tests := map[string]struct {
		stages     []string
		components []bundle.Component
		want       string // names, or the error's end
	}{
		"as written when nothing is needed": {nil, []bundle.Component{staged("b", ""), staged("a", ""), staged("c", "")}, "b a c"},
		"needs first":                       {nil, []bundle.Component{staged("b", "", "c"), staged("a", ""), staged("c", "")}, "a c b"},
		"stages before needs":               {[]string{"one", "two"}, []bundle.Component{staged("b", "two"), staged("a", "one"), staged("c", "two", "a")}, "a b c"},
		"a circle":                          {nil, []bundle.Component{staged("a", "", "b"), staged("b", "", "a"), staged("c", "")}, "not there: a, b"},
		"a need that is not there":          {nil, []bundle.Component{staged("a", "", "x")}, "not there: a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ordered, err := order(&bundle.Release{Stages: test.stages, Components: test.components})
			if err != nil {
				if !strings.HasSuffix(err.Error(), test.want) {
					t.Errorf("error is %q, want its end %q", err, test.want)
				}
				return
			}
			if got := strings.ReplaceAll(namesOf(ordered), ",", ""); got != test.want {
				t.Errorf("order is %q, want %q", got, test.want)
			}
		})
	}
}

// plan is a schedule of tasks that end at once, some badly.
func planned(goOn bool, bad string, tasks ...task) (*schedule, *[]string) {
	var mu sync.Mutex
	ran := &[]string{}
	for i := range tasks {
		name := tasks[i].name
		tasks[i].run = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			*ran = append(*ran, name)
			if slices.Contains(strings.Fields(bad), name) {
				return errors.New("broken")
			}
			return nil
		}
	}
	return &schedule{tasks: tasks, concurrency: 1, goOn: goOn, waiting: func(string, []string) {}}, ran
}

func TestScheduleFailure(t *testing.T) {
	tasks := func() []task {
		return []task{
			{name: "crds"}, {name: "db"}, {name: "web", after: []string{"db"}}, {name: "job", after: []string{"web", "crds"}},
			{name: "alone"}, {name: "late", stage: 1},
		}
	}
	tests := map[string]struct {
		goOn bool
		bad  string
		ran  string
		want map[string]string // reasons of what was skipped
	}{
		"stop begins nothing more": {false, "db", "crds db", map[string]string{
			"web": "needs db, which failed", "job": "needs web, which was skipped: needs db, which failed",
			"alone": "not begun, since db failed", "late": "not begun, since db failed",
		}},
		"continue skips what needs it": {true, "db", "crds db alone late", map[string]string{
			"web": "needs db, which failed", "job": "needs web, which was skipped: needs db, which failed",
		}},
		"nothing fails": {false, "", "crds db web job alone late", map[string]string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, ran := planned(test.goOn, test.bad, tasks()...)
			results := s.run(context.Background())
			skipped := map[string]string{}
			for name, res := range results {
				if res.state == OutcomeSkipped {
					skipped[name] = res.reason
				}
			}
			if got := strings.Join(*ran, " "); got != test.ran {
				t.Errorf("ran %q, want %q", got, test.ran)
			}
			if diff := cmp.Diff(test.want, skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}

// Independent tasks run at the same time, up to the limit and no further, and
// a later stage waits for all of the earlier one.
func TestScheduleParallel(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	meet := make(chan struct{}, 3)
	var ended []string
	run := func(name string, meets bool) func(context.Context) error {
		return func(context.Context) error {
			mu.Lock()
			running++
			most = max(most, running)
			together := running == 2
			mu.Unlock()
			if together { // the other one is still there: let both go
				meet <- struct{}{}
				meet <- struct{}{}
			}
			if meets {
				<-meet
			}
			mu.Lock()
			defer mu.Unlock()
			running--
			ended = append(ended, name)
			return nil
		}
	}
	waits := map[string][]string{}
	s := &schedule{concurrency: 2, waiting: func(name string, on []string) { waits[name] = on }, tasks: []task{
		{name: "a", run: run("a", true)}, {name: "b", run: run("b", true)}, {name: "z", stage: 1, run: run("z", false)},
	}}
	s.run(context.Background())
	if most != 2 {
		t.Errorf("%d ran at the same time, want 2", most)
	}
	if ended[2] != "z" {
		t.Errorf("they ended as %v, want z last", ended)
	}
	if diff := cmp.Diff(map[string][]string{"z": {"a", "b"}}, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}
