//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/template"
	"time"
)

//go:embed page.md.tmpl
var pageText string

// page is docs/benchmarks.md.
func (b *bench) page() (string, error) {
	text, err := template.New("page").Parse(pageText)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = text.Execute(&out, map[string]any{
		"Machine": machine(), "Versions": b.versionList(), "Absent": strings.Join(b.absent, ", "),
		"Date": b.began.UTC().Format(time.DateOnly), "Minutes": fmt.Sprintf("%.0f", time.Since(b.began).Minutes()),
		"Many": b.about(many()), "Large": b.about(large(b.scale)), "Rounds": b.rounds, "Scale": b.scale,
		"Idle": size(float64(b.idle.Memory)), "IdleWall": seconds(b.idle.Wall),
		"Ratios": b.ratios(), "Tables": b.tables(),
	})
	return out.String(), err
}

func (b *bench) about(w workload) string {
	return fmt.Sprintf("%s, %s and %d objects in all", w.title, size(float64(w.bytes())), w.objects())
}

func (b *bench) versionList() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(b.versions)) {
		list = append(list, name+" "+b.versions[name])
	}
	return strings.Join(list, ", ")
}

// machine says what kind of machine this is.
func machine() string {
	cpu := "processors"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	var info syscall.Sysinfo_t
	_ = syscall.Sysinfo(&info) // without it, no memory is told
	return fmt.Sprintf("%d × %s, %s of memory, %s", runtime.NumCPU(), cpu, size(float64(info.Totalram)*float64(info.Unit)), runtime.GOOS+"/"+runtime.GOARCH)
}

// A ratio is how our time stands to another.
type ratio struct {
	What, Ours, Other, Name, Times, Aim string
}

// ratios are the comparisons that there are aims for.
func (b *bench) ratios() []ratio {
	var all []ratio
	add := func(workload, what, against string, aim string) {
		ours, ok := b.of(workload, what, ours)
		if !ok {
			return
		}
		name, other, ok := b.fastest(workload, what)
		if against != "" {
			name = against
			other, ok = b.against(workload, what, against)
		}
		if !ok {
			return
		}
		all = append(all, ratio{
			What: workload + ": " + what, Ours: seconds(ours.Wall), Other: seconds(other.Wall), Name: name,
			Times: fmt.Sprintf("%.2f", ours.Wall.Seconds()/other.Wall.Seconds()), Aim: aim,
		})
	}
	for _, w := range []string{"many", "large"} {
		add(w, doCopy, "", "≤ 1.00")
		// Twenty objects are looked at before a program of this size has begun.
		add(w, doAgain, headClient, map[string]string{"many": "≤ 1.30"}[w])
		add(w, doAgain, "skopeo", map[string]string{"many": "≤ 0.20"}[w])
		add(w, doAssume, "", "")
		add(w, doSave, "", map[string]string{"many": "≤ 1.00", "large": "≤ 0.67"}[w])
		add(w, doLoad, "", "≤ 0.83")
		add(w, doLoadWarm, "", "≤ 0.83")
	}
	add("many", doChange, "", "")
	for _, w := range []string{"many", "large"} {
		add(w, doCutCopy, ours, "")
		add(w, doCutSave, ours, "≤ 0.15")
		add(w, doCutLoad, ours, "")
	}
	return all
}

// against is what something is held against that is not another tool's doing the
// same.
func (b *bench) against(workload, what, against string) (measurement, bool) {
	if against == ours { // the same without a cut
		what = map[string]string{doCutCopy: doCopy, doCutSave: doSave, doCutLoad: doLoad}[what]
	}
	return b.of(workload, what, against)
}

// of is the median of one tool's runs.
func (b *bench) of(workload, what, tool string) (measurement, bool) {
	for _, r := range b.results {
		if r.workload == workload && r.what == what && r.tool == tool {
			return median(slices.Clone(r.runs)), true
		}
	}
	return measurement{}, false
}

// fastest is the fastest of the others. Those that take an index that is there
// for all of it are what --assume-complete is held against.
func (b *bench) fastest(workload, what string) (string, measurement, bool) {
	var name string
	var best measurement
	if what == doAssume {
		what = doAgain
	}
	for _, r := range b.results {
		if r.workload != workload || r.what != what || r.tool == ours || r.tool == headClient {
			continue
		}
		if m := median(slices.Clone(r.runs)); name == "" || m.Wall < best.Wall {
			name, best = r.tool, m
		}
	}
	return name, best, name != ""
}

// A table is what all tools took for one thing.
type table struct {
	Title string
	Rows  []row
}

type row struct{ Tool, Wall, Times, CPU, Memory, Above, Runs string }

func (b *bench) tables() []table {
	var all []table
	index := map[string]int{}
	for _, r := range b.results {
		title := r.workload + ": " + r.what
		at, ok := index[title]
		if !ok {
			at = len(all)
			index[title] = at
			all = append(all, table{Title: title})
		}
		all[at].Rows = append(all[at].Rows, b.row(r))
	}
	for i := range all {
		slices.SortStableFunc(all[i].Rows, func(a, c row) int { return strings.Compare(a.Tool, c.Tool) })
	}
	return all
}

func (b *bench) row(r result) row {
	m := median(slices.Clone(r.runs))
	out := row{
		Tool: r.tool, Wall: seconds(m.Wall), CPU: seconds(m.CPU), Runs: fmt.Sprint(len(r.runs)),
		Memory: fmt.Sprintf("%d MiB", m.Memory>>20),
	}
	if mine, ok := b.of(r.workload, r.what, ours); ok {
		out.Times = fmt.Sprintf("%.2f", mine.Wall.Seconds()/m.Wall.Seconds())
	}
	if r.tool == ours {
		out.Above = fmt.Sprintf("%+d MiB", (m.Memory-b.idle.Memory)>>20)
	}
	return out
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
