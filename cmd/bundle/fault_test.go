package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/registrytest"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

// An operation is one way of carrying the bundle to a place that does not hold it.
type operation struct {
	signs bool
	mixed bool   // what is read lies at the target too, and is not told apart
	parts bool   // what is there of it stays when it fails: whole volumes
	place string // what stands after a fresh name: "" for a registry, else the file's or folder's name
	sides []*watched
	do    func(place string, patience ...string) (code int, out, errOut string)
}

// onCommandLine is an operation of the program; FROM and TO stand for the places.
func onCommandLine(t *testing.T, place, from string, sides []*watched, args ...string) operation {
	return operation{place: place, sides: sides, do: func(to string, patience ...string) (int, string, string) {
		words := slices.Clone(args)
		for i := range words {
			words[i] = strings.NewReplacer("FROM", from, "TO", to, "PREFIX", strings.TrimSuffix(strings.TrimPrefix(to, "oci://"), ":current")+"-mirror").Replace(words[i])
		}
		words = append(words, "--key", "vendor.pub", "--concurrency", "1", "--quiet")
		return runBundle(t, append(words, patience...)...)
	}}
}

// Whatever goes wrong with whatever request, of either side of whatever is done:
// it succeeds, with all there that should be, or it ends with the first cause and
// nothing under the name. Doing it again without the fault gives what one gets that
// was never disturbed. No reader ever sees a tag that leads to a part.
//
// A part of all faults at all requests is tried, the same each time; WAYBILL_FAULTS
// is "random" for another part, the seed of one that was, or "all".
func TestFaults(t *testing.T) {
	trial := faultTrialFrom(t)
	for i, target := range targetsOfFaults {
		if trial.one && int(trial.seed%uint64(len(targetsOfFaults))) != i {
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			w := newWorldOfFaults(t, target)
			for name, op := range w.operations() {
				t.Run(name, func(t *testing.T) {
					(&disturbance{worldOfFaults: w, t: t, op: op, name: name, faultTrial: trial}).everywhere()
				})
			}
		})
	}
}

// A faultTrial says what is tried.
type faultTrial struct {
	all     bool
	seed    uint64
	one     bool // of the kinds of target, the one that the seed says
	samples int  // how many requests of each side go wrong, if not all do
}

func faultTrialFrom(t *testing.T) faultTrial {
	t.Helper()
	trial := faultTrial{seed: 1, samples: 3}
	switch word := os.Getenv("WAYBILL_FAULTS"); word {
	case "":
		return trial
	case "all":
		trial.all = true
		return trial
	case "random":
		trial.seed = uint64(rand.Uint32())
	default:
		seed, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			t.Fatalf("WAYBILL_FAULTS=%q is neither a number nor random nor all", word)
		}
		trial.seed = seed
	}
	trial.one, trial.samples = true, 10
	t.Logf("WAYBILL_FAULTS=%d does the same again", trial.seed)
	return trial
}

func (w *worldOfFaults) operations() map[string]operation {
	both, source, target := []*watched{w.source, w.target}, []*watched{w.source}, []*watched{w.target}
	local := func(name string) string {
		to := filepath.Join(w.dir, name)
		if code, _, errOut := runBundle(w.t, "copy", w.from, to, "--policy", "none", "--quiet"); code != 0 {
			w.t.Fatal(errOut)
		}
		return to
	}
	return map[string]operation{
		"build":                  {signs: true, sides: both, do: w.build()},
		"build into an archive":  {signs: true, place: "shop.tar", sides: source, do: w.build()},
		"copy":                   onCommandLine(w.t, "", w.from, both, "copy", "FROM", "TO"),
		"copy into an archive":   onCommandLine(w.t, "shop.tar", w.from, source, "copy", "FROM", "TO"),
		"copy into a folder":     onCommandLine(w.t, "layout", w.from, source, "copy", "FROM", "TO"),
		"copy out of an archive": onCommandLine(w.t, "", local("saved.tar"), target, "copy", "FROM", "TO"),
		"save":                   onCommandLine(w.t, "shop.tar", w.from, source, "save", "FROM", "TO"),
		"save in volumes":        w.volumes(source),
		"save a delta":           onCommandLine(w.t, "shop.tar", w.from, source, "save", "FROM", "TO", "--base", "oci://"+w.source.Host+"/up/web:1"),
		"copy and expand":        onCommandLine(w.t, "", w.from, both, "copy", "FROM", "TO", "--expand", "PREFIX"),
		"load volumes":           w.loadVolumes(target),
		"load":                   onCommandLine(w.t, "", local("loaded.tar"), target, "load", "FROM", "TO"),
		"copy out of a folder":   onCommandLine(w.t, "", local("saved"), target, "copy", "FROM", "TO"),
	}
}

// splitSize makes volumes of the bundle, with all signatures in the first.
const splitSize = "250K"

func (w *worldOfFaults) volumes(sides []*watched) operation {
	op := onCommandLine(w.t, "shop.tar", w.from, sides, "save", "FROM", "TO", "--split", splitSize)
	op.parts = true
	return op
}

// loadVolumes brings one volume after the other, and the last one publishes.
func (w *worldOfFaults) loadVolumes(sides []*watched) operation {
	archive := filepath.Join(w.dir, "volumes", "shop.tar")
	w.ok(os.Mkdir(filepath.Dir(archive), 0o755))
	if code, _, errOut := runBundle(w.t, "save", w.from, archive, "--split", splitSize, "--policy", "none", "--quiet"); code != 0 {
		w.t.Fatal(errOut)
	}
	volumes, err := filepath.Glob(archive + ".0*")
	w.ok(err)
	if len(volumes) < 2 {
		w.t.Fatalf("there are only %d volumes", len(volumes))
	}
	return operation{mixed: true, sides: sides, do: func(to string, patience ...string) (code int, out, errOut string) {
		for _, volume := range volumes {
			one := onCommandLine(w.t, "", volume, sides, "load", "FROM", "TO", "--partial")
			if code, out, errOut = one.do(to, patience...); code != 0 {
				break
			}
		}
		return code, out, errOut
	}}
}

// build does what the program does, but that the key is unlocked once for all
// times.
func (w *worldOfFaults) build() func(string, ...string) (int, string, string) {
	quiet := ui.NewTalk(&bytes.Buffer{}, "bundle", ui.TalkOptions{Quiet: true})
	signers, err := loadSigners(w.t.Context(), []string{"vendor.key"}, quiet)
	w.ok(err)
	return func(to string, patience ...string) (int, string, string) {
		var out, errOut bytes.Buffer
		err := w.buildTo(to, signers, settingsOf(patience), &out, ui.NewTalk(&errOut, "bundle", ui.TalkOptions{Quiet: true}))
		code := ui.Report(w.t.Context(), &errOut, "bundle", err)
		return code, out.String(), errOut.String()
	}
}

// settingsOf reads what patience is given in words.
func settingsOf(patience []string) registry.Settings {
	s := registry.Settings{Retry: 5, Concurrency: 1}
	for i := 0; i+1 < len(patience); i += 2 {
		switch patience[i] {
		case "--retry":
			if s.Retry, _ = strconv.Atoi(patience[i+1]); s.Retry == 0 {
				s.Retry = -1
			}
		case "--chunk-size":
			s.ChunkSize, _ = strconv.ParseInt(patience[i+1], 10, 64)
		case "--idle-timeout":
			s.IdleTimeout, _ = time.ParseDuration(patience[i+1])
		}
	}
	return s
}

func (w *worldOfFaults) buildTo(to string, signers []*signing.Signer, settings registry.Settings, out *bytes.Buffer, talk *ui.Talk) error {
	loc, err := registry.ParseLocation(to)
	if err != nil {
		return err
	}
	opts := buildOptions{
		file: "release.yaml", locked: true, packed: bundle.PackedImages, to: []registry.Location{loc}, settings: settings,
		sign: signOptions{recursive: "charts", format: signing.FormatBoth}, form: flags.Text,
	}
	return buildSigned(w.t.Context(), opts, signers, out, talk)
}

// A disturbance does one operation over and over, and lets something go wrong.
type disturbance struct {
	*worldOfFaults
	faultTrial
	t    *testing.T
	op   operation
	name string

	n    int
	want string // what is at the place when nothing goes wrong
}

// step is how many requests of a side one is chosen of.
func (d *disturbance) step(of int) int {
	samples := d.samples
	if of > 300 { // each takes long
		samples = max(samples/2, 1)
	}
	return max(of/samples, 1)
}

func (d *disturbance) everywhere() {
	place := d.fresh()
	for _, side := range d.op.sides {
		side.Arm(1<<30, false, registrytest.Fault{})
	}
	if code, _, errOut := d.op.do(place, d.usual...); code != 0 {
		d.t.Fatalf("undisturbed: exit %d: %s", code, errOut)
	}
	if d.want = d.stateAt(place); d.want == "" || strings.HasPrefix(d.want, "broken") {
		d.t.Fatalf("undisturbed, there is %q", d.want)
	}
	for s, side := range d.op.sides {
		_, seen := side.Disarm()
		step := 1
		if !d.all {
			step = d.step(seen)
		}
		rnd := rand.New(rand.NewPCG(d.seed, uint64(s)))
		for at := rnd.IntN(step); at < seen; at += step {
			troubles := registrytest.Troubles(rnd, side.twin.URL)
			if !d.all {
				i := rnd.IntN(len(troubles))
				troubles = troubles[i : i+1]
			}
			for _, trouble := range troubles {
				d.once(side, at, trouble, rnd.IntN(2) == 0)
			}
		}
	}
}

func (d *disturbance) stateAt(place string) string {
	if d.op.signs {
		return d.signedState(place)
	}
	return d.state(place)
}

// difference says in what two states differ.
func difference(got, want string) string {
	have, need := strings.Split(got, "\n"), strings.Split(want, "\n")
	return fmt.Sprintf("there is not\n%s\nbut\n%s", strings.Join(lacking(have, need), "\n"), strings.Join(lacking(need, have), "\n"))
}

// fresh is a place that holds nothing, or in a registry another thing under the
// tag.
func (d *disturbance) fresh() string {
	d.n++
	if d.op.place == "" {
		return fmt.Sprintf("oci://%s/%s-%d:current", d.target.Host, strings.ReplaceAll(d.name, " ", "-"), d.n)
	}
	dir := filepath.Join(d.dir, "out", fmt.Sprintf("%s %d", d.name, d.n))
	d.ok(os.MkdirAll(dir, 0o755))
	return filepath.Join(dir, d.op.place)
}

// once lets one request go wrong.
func (d *disturbance) once(side *watched, at int, trouble registrytest.Trouble, patient bool) {
	place := d.fresh()
	if d.n%2 == 0 {
		d.previous(place)
	}
	d.readAt(place)
	patience := append([]string{"--retry", "0"}, d.usual...)
	if patient {
		patience[1] = "3"
	}
	if trouble.Slow {
		patience = append(patience, "--idle-timeout", registrytest.Patience.String())
	}
	side.Arm(at, trouble.ForGood, trouble.Fault)
	code, out, errOut := d.op.do(place, patience...)
	met, _ := side.Disarm()
	fail := func(format string, args ...any) {
		d.t.Helper()
		d.t.Errorf("%s, %s at request %d of %s (%s), %s: %s", d.name, trouble.Name, at, d.sideName(side), met, strings.Join(patience, " "), fmt.Sprintf(format, args...))
	}
	got := d.stateAt(place)
	switch {
	case code == 0 && strings.Contains(errOut, "counts as not held"):
		// A delta that leaves out less, which is said.
	case code == 0:
		if (got != d.want || out == "") && !trouble.Absence {
			fail("success is said with %q, and %s", out, difference(got, d.want))
		}
	case met == "" && trouble.Slow && code == ui.ExitUnreachable:
		// The machine is busy, and the timeout short.
	case met == "":
		fail("exit %d, and nothing went wrong: %s", code, errOut)
	case strings.Contains(d.name, "expand") && code == ui.ExitPartial && got == d.want && out != "" && !(trouble.Passes && patient):
		// The bundle is there, which is said, and its mirror is not.
	default:
		if trouble.Passes && patient {
			fail("it is not lived through: exit %d: %s", code, errOut)
		}
		if extra := lacking(strings.Split(d.want, "\n"), strings.Split(got, "\n")); got != "" && (!d.op.parts || got == d.want || len(extra) > 0) {
			fail("exit %d, and there is\n%s", code, got)
		}
		if trouble.Odd && code == ui.ExitFailed {
			code = ui.ExitUnreachable // what came back is told, and means nothing else
		}
		for _, problem := range d.wrongWords(side, code, out, errOut) {
			fail("%s: exit %d, %q, %s", problem, code, out, errOut)
		}
	}
	if left := d.besides(place, code != 0); len(left) > 0 {
		fail("exit %d leaves %q", code, left)
	}
	d.again(place, fail)
	if problems := d.target.saw(); !trouble.Absence {
		for _, problem := range problems {
			fail("%s", problem)
		}
	}
}

// again does it undisturbed where it was disturbed, which makes what one makes that
// never was.
func (d *disturbance) again(place string, fail func(format string, args ...any)) {
	if code, _, errOut := d.op.do(place, d.usual...); code != 0 {
		fail("doing it again: exit %d: %s", code, errOut)
	} else if got := d.stateAt(place); got != d.want {
		fail("after doing it again %s", difference(got, d.want))
	}
	if left := d.besides(place, false); len(left) > 0 {
		fail("after doing it again there is %q", left)
	}
}

// readAt lets a reader poll a place in the target.
func (d *disturbance) readAt(place string) {
	if d.op.place != "" {
		return
	}
	repository := strings.TrimSuffix(strings.TrimPrefix(place, "oci://"+d.target.Host+"/"), ":current")
	d.target.reads(repository, d.root, d.op.signs, strings.Split(d.want, "\n"))
}

func (d *disturbance) sideName(side *watched) string {
	if side == d.target {
		return "the target"
	}
	return "the source"
}

// wrongWords is what is wrong with what a failure says.
func (d *disturbance) wrongWords(side *watched, code int, out, errOut string) []string {
	var problems []string
	if out != "" {
		problems = append(problems, "a result is printed")
	}
	if !slices.Contains([]int{ui.ExitRefused, ui.ExitNotFound, ui.ExitCorrupt, ui.ExitUnreachable}, code) {
		problems = append(problems, "that is another code than registries' faults have")
	}
	if !startsWithError(errOut) || strings.Contains(errOut, "cancel") {
		problems = append(problems, "it does not begin with the first cause")
	}
	if !d.op.mixed && !strings.Contains(errOut, side.Host) && !strings.Contains(errOut, side.twin.Host) {
		problems = append(problems, "it names no host")
	}
	return problems
}

// startsWithError says whether the first line that is no warning is an error.
func startsWithError(errOut string) bool {
	for line := range strings.Lines(errOut) {
		if !strings.HasPrefix(line, "bundle: warning: ") {
			return strings.HasPrefix(line, "bundle: error: ")
		}
	}
	return false
}
