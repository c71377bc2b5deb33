//go:build unix

package demo_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"waybill/test/cluster"
)

// block is a block of code of a page, with its language.
var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// A newcomer's commands, all that the README has, work one after the other as
// they stand there. Only a free port is taken instead of its one, and make is
// asked whether it knows what it is to do.
func readmeRuns(t *testing.T, c *cluster.Cluster, bin string) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, b := range block.FindAllStringSubmatch(string(page), -1) {
		switch language, text := b[1], b[2]; language {
		case "sh":
			script.WriteString(text)
		case "yaml":
			name, ok := strings.CutPrefix(strings.SplitN(text, "\n", 2)[0], "# ")
			if !ok {
				t.Fatalf("the first line of a YAML block does not name its file:\n%s", text)
			}
			fmt.Fprintf(&script, "cat >%s <<'END'\n%sEND\n", name, text)
		default:
			t.Fatalf("nothing is known of blocks of %s", language)
		}
	}
	text := strings.ReplaceAll(script.String(), "127.0.0.1:5000", freeAddress(t))
	for _, want := range []string{"bundle init", "bundle build", "bundle verify", "apply install", "apply uninstall"} {
		if !strings.Contains(text, want) {
			t.Errorf("the README does not show %s", want)
		}
	}
	dir := checkout(t)
	cmd := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", prelude+text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`(?m)^web +upgrade +done +1 -> 2`, `(?m)^database +unchanged +unchanged`, `shop:1\.1\.0@sha256:`, `nothing to do`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("the commands do not say %s:\n%s", want, out)
		}
	}
	wantNothingRunning(t, dir)
}

// prelude makes make only ask, waits for what is begun in the background, and
// ends it.
const prelude = `
trap 'kill $(jobs -p); wait' EXIT
top=$PWD
make() { command make -C "$top" --dry-run "$@" >/dev/null; }
mkdir() { sleep 2; command mkdir "$@"; }
`

// checkout is a folder with what a newcomer has.
func checkout(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "waybill")
	if err := os.CopyFS(filepath.Join(dir, "demo"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../Makefile")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "Makefile"), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// freeAddress is an address nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
