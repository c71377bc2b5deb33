package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// ErrNoPrograms reports that not all programs of the control plane, or of the further ones asked for, are on this machine
// yet.
var ErrNoPrograms = errors.New("not on this machine yet: run make cluster, or name a folder that has them in WAYBILL_CLUSTER_BIN or KUBEBUILDER_ASSETS")

// Programs are paths of programs by their names: etcd, kube-apiserver, kube-controller-manager, and further ones that were
// asked for.
type Programs map[string]string

// A source is where one program comes from, and how long its first build takes on two cores.
type source struct{ name, path, takes string }

// sources are the programs, the quickest build first: those of the control plane and the further ones, which run pods on a
// real machine.
func sources(further []string) []source {
	control := []source{
		{"etcd", "go.etcd.io/etcd/server/v3", "a minute or two"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "ten to twenty minutes"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "two to five minutes"},
	}
	return slices.Concat(control, slices.DeleteFunc([]source{
		{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", "one to three minutes"},
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet", "three to six minutes"},
	}, func(s source) bool { return !slices.Contains(further, s.name) }))
}

// Find finds each program of the control plane, and the further ones named (kube-scheduler, kubelet), in the folder that
// WAYBILL_CLUSTER_BIN names, else in that of KUBEBUILDER_ASSETS (which has no controller manager, as setup-envtest fills
// it), else in the cache of [Build]. It builds nothing. Errors: [ErrNoPrograms]; another one for a folder that was named
// and has none of them.
func Find(further ...string) (Programs, error) {
	wanted := sources(further)
	found := Programs{}
	for _, name := range []string{"WAYBILL_CLUSTER_BIN", "KUBEBUILDER_ASSETS"} {
		dir := os.Getenv(name)
		if dir == "" {
			continue
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if !found.add(dir, wanted) {
			return nil, fmt.Errorf("%s is %s, which has none of the cluster's programs", name, dir)
		}
	}
	if len(found.missing(wanted)) == 0 {
		return found, nil
	}
	tools, err := findTools()
	if err != nil {
		return nil, err
	}
	found.add(tools.cache, wanted)
	if missing := found.missing(wanted); len(missing) > 0 {
		return nil, fmt.Errorf("%s: %w", strings.Join(missingNames(missing), ", "), ErrNoPrograms)
	}
	return found, nil
}

// add adds what a folder has and was not found before, and reports whether it has some.
func (p Programs) add(dir string, wanted []source) (some bool) {
	for _, s := range wanted {
		path := filepath.Join(dir, s.name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		some = true
		if p[s.name] == "" {
			p[s.name] = path
		}
	}
	return some
}

// missing are those wanted that were not found.
func (p Programs) missing(wanted []source) []source {
	return slices.DeleteFunc(slices.Clone(wanted), func(s source) bool { return p[s.name] != "" })
}

func missingNames(missing []source) (names []string) {
	for _, s := range missing {
		names = append(names, s.name)
	}
	return names
}

// Available reports whether [Find] finds the programs.
func Available() bool {
	_, err := Find()
	return err == nil
}

// Build is [Find], but first builds into the cache what is missing there; what it does and how long that may take goes
// to log. Two builds at once wait for each other, and one that was killed leaves no half-made program.
func Build(ctx context.Context, log io.Writer, further ...string) (Programs, error) {
	found, err := Find(further...)
	if !errors.Is(err, ErrNoPrograms) {
		return found, err
	}
	tools, err := findTools()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(tools.cache, 0o755); err != nil {
		return nil, fmt.Errorf("making the cache of cluster programs: %w", err)
	}
	unlock, err := lockedfile.MutexAt(filepath.Join(tools.cache, "lock")).Lock()
	if err != nil {
		return nil, fmt.Errorf("waiting for another build of cluster programs: %w", err)
	}
	defer unlock()
	wanted := sources(further)
	cached := Programs{}
	cached.add(tools.cache, wanted)
	for _, s := range cached.missing(wanted) {
		if err := tools.build(ctx, s, log); err != nil {
			return nil, fmt.Errorf("building %s: %w", s.name, err)
		}
	}
	return Find(further...)
}

// tools is the Go module beside this package that pins the programs.
type tools struct {
	dir     string // the module
	version string // of Kubernetes, as v1.34.4
	cache   string // where its builds are kept: one folder for each content of go.mod, platform and way to build
}

// findTools looks for the module from the working directory upwards: tests and go run work inside this repository.
func findTools() (tools, error) {
	root, err := findRoot()
	if err != nil {
		return tools{}, err
	}
	dir := filepath.Join(root, "test", "cluster", "tools")
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return tools{}, fmt.Errorf("reading which Kubernetes the test cluster is: %w", err)
	}
	match := regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v(\d+)\.(\d+)\S*)`).FindSubmatch(mod)
	if match == nil {
		return tools{}, fmt.Errorf("%s requires no k8s.io/kubernetes", filepath.Join(dir, "go.mod"))
	}
	t := tools{dir: dir, version: string(match[1])}
	cache, err := os.UserCacheDir()
	if err != nil {
		return tools{}, fmt.Errorf("looking for the cache of cluster programs: %w", err)
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.GOOS, runtime.GOARCH, t.flags())
	hash.Write(mod)
	t.cache = filepath.Join(cache, "waybill", "cluster", fmt.Sprintf("%s-%x", t.version, hash.Sum(nil)[:6]))
	return t, nil
}

// findRoot is the folder of the project's go.mod, at or above the working directory.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module waybill\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the working directory is not in the repository of waybill, whose test/cluster/tools pins the cluster's programs")
		}
		dir = filepath.Dir(dir)
	}
}

// flags are those of go build. Without the version variables the server would call itself v0.0.0.
func (t tools) flags() []string {
	numbers := strings.SplitN(strings.TrimPrefix(t.version, "v"), ".", 3)
	const version = "-X k8s.io/component-base/version."
	return []string{"-mod=readonly", "-ldflags", strings.Join([]string{
		"-s -w",
		version + "gitVersion=" + t.version,
		version + "gitMajor=" + numbers[0],
		version + "gitMinor=" + numbers[1],
		version + "gitTreeState=clean",
	}, " ")}
}

// build builds one program beside its place and puts it there when it is whole.
func (t tools) build(ctx context.Context, s source, log io.Writer) error {
	fmt.Fprintf(log, "building %s for Kubernetes %s: %s the first time\n", s.name, strings.TrimPrefix(t.version, "v"), s.takes)
	begun := time.Now()
	aside, err := os.MkdirTemp(t.cache, "building-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(aside) }()
	binary := filepath.Join(aside, s.name)
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, t.flags()...), "-o", binary, s.path)...)
	cmd.Dir = t.dir
	// A workspace or flags of the user's do not change what is built.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return err
	}
	if err := os.Rename(binary, filepath.Join(t.cache, s.name)); err != nil {
		return err
	}
	fmt.Fprintf(log, "built %s in %s\n", s.name, time.Since(begun).Round(time.Second))
	return nil
}
