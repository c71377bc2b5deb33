package charts

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"waybill/registry"
)

// A gitRepo is a repository of the test's own.
type gitRepo struct {
	t    testing.TB
	dir  string
	repo *git.Repository
}

var author = object.Signature{Name: "Ann", Email: "ann@shop.example", When: time.Unix(1e9, 0)}

func newGitRepo(t testing.TB) gitRepo {
	t.Helper()
	dir := t.TempDir()
	repo, err := git.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return gitRepo{t, dir, repo}
}

// commit makes the files of a txtar all there is, and commits them.
func (g gitRepo) commit(text string) plumbing.Hash {
	g.t.Helper()
	tree := map[string]gitFile{}
	for _, f := range txtar.Parse([]byte(text)).Files {
		tree[f.Name] = gitFile{filemode.Regular, string(f.Data)}
	}
	return g.commitTree(tree)
}

// A gitFile is an entry of a tree that no honest program needs to have made.
type gitFile struct {
	mode filemode.FileMode
	data string // content, target of a link, commit of a submodule
}

// commitTree commits a tree built by hand and moves the branch there.
func (g gitRepo) commitTree(files map[string]gitFile) plumbing.Hash {
	g.t.Helper()
	commit := &object.Commit{Author: author, Committer: author, Message: "more", TreeHash: g.tree(files)}
	if head, err := g.repo.Head(); err == nil {
		commit.ParentHashes = []plumbing.Hash{head.Hash()}
	}
	hash := g.store(commit)
	g.ref("refs/heads/master", hash)
	return hash
}

func (g gitRepo) ref(name string, hash plumbing.Hash) {
	g.t.Helper()
	if err := g.repo.Storer.SetReference(plumbing.NewHashReference(plumbing.ReferenceName(name), hash)); err != nil {
		g.t.Fatal(err)
	}
}

func (g gitRepo) store(o interface {
	Encode(plumbing.EncodedObject) error
}) plumbing.Hash {
	g.t.Helper()
	encoded := g.repo.Storer.NewEncodedObject()
	if err := o.Encode(encoded); err != nil {
		g.t.Fatal(err)
	}
	hash, err := g.repo.Storer.SetEncodedObject(encoded)
	if err != nil {
		g.t.Fatal(err)
	}
	return hash
}

func (g gitRepo) tree(files map[string]gitFile) plumbing.Hash {
	g.t.Helper()
	tree := &object.Tree{}
	below := map[string]map[string]gitFile{}
	for _, name := range sortedKeys(files) {
		dir, rest, isBelow := strings.Cut(name, "/")
		if isBelow {
			if below[dir] == nil {
				below[dir] = map[string]gitFile{}
			}
			below[dir][rest] = files[name]
			continue
		}
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: strings.ReplaceAll(name, "SLASH", "/"), Mode: files[name].mode, Hash: g.blob(files[name])})
	}
	for _, dir := range sortedKeys(below) {
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: dir, Mode: filemode.Dir, Hash: g.tree(below[dir])})
	}
	// Encoding wants git's order.
	encoded := g.repo.Storer.NewEncodedObject()
	encoded.SetType(plumbing.TreeObject)
	sortTree(tree)
	w, err := encoded.Writer()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, e := range tree.Entries {
		if _, err := w.Write([]byte(strings.TrimLeft(e.Mode.String(), "0") + " " + e.Name + "\x00" + string(e.Hash[:]))); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		g.t.Fatal(err)
	}
	hash, err := g.repo.Storer.SetEncodedObject(encoded)
	if err != nil {
		g.t.Fatal(err)
	}
	return hash
}

func sortTree(tree *object.Tree) {
	key := func(e object.TreeEntry) string {
		if e.Mode == filemode.Dir {
			return e.Name + "/"
		}
		return e.Name
	}
	for i := range tree.Entries {
		for j := i + 1; j < len(tree.Entries); j++ {
			if key(tree.Entries[j]) < key(tree.Entries[i]) {
				tree.Entries[i], tree.Entries[j] = tree.Entries[j], tree.Entries[i]
			}
		}
	}
}

func (g gitRepo) blob(f gitFile) plumbing.Hash {
	g.t.Helper()
	if f.mode == filemode.Submodule {
		return plumbing.NewHash(f.data)
	}
	encoded := g.repo.Storer.NewEncodedObject()
	encoded.SetType(plumbing.BlobObject)
	w, err := encoded.Writer()
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := w.Write([]byte(f.data)); err != nil {
		g.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		g.t.Fatal(err)
	}
	hash, err := g.repo.Storer.SetEncodedObject(encoded)
	if err != nil {
		g.t.Fatal(err)
	}
	return hash
}

// inFolder puts the files of a txtar into a folder.
func inFolder(dir, text string) string {
	archive := txtar.Parse([]byte(text))
	for i := range archive.Files {
		archive.Files[i].Name = dir + "/" + archive.Files[i].Name
	}
	return string(txtar.Format(archive))
}

// A gitHost serves the folder of a repository over smart HTTP, with the git
// program.
type gitHost struct {
	*httptest.Server
	mu    sync.Mutex
	log   []string // paths, and the scheme of the login
	fault func(http.ResponseWriter, *http.Request) bool
}

func serveGit(t testing.TB, g gitRepo, settings ...string) *gitHost {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git program")
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if out, err := exec.Command(program, "-C", g.dir, "config", name, value).CombinedOutput(); err != nil {
			t.Fatalf("git config: %v %s", err, out)
		}
	}
	backend := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(g.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}}
	h := &gitHost{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		h.mu.Lock()
		h.log = append(h.log, strings.TrimSpace(r.URL.Path+" "+scheme))
		h.mu.Unlock()
		if h.fault != nil && h.fault(w, r) {
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	h.URL += "/" + filepath.Base(g.dir) + "/.git"
	return h
}

func TestGitRefs(t *testing.T) {
	g := newGitRepo(t)
	first := g.commit(inFolder("charts/shop", shop))
	g.ref("refs/heads/release", first)
	g.ref("refs/tags/light", first)
	annotated := g.store(&object.Tag{Name: "v1.0.0", Tagger: author, Message: "one", TargetType: plumbing.CommitObject, Target: first})
	g.ref("refs/tags/v1.0.0", annotated)
	second := g.commit(inFolder("charts/shop", shop+"-- more --\nx\n"))
	g.ref("refs/heads/both", first)
	g.ref("refs/tags/both", second)
	g.ref("refs/heads/same", first)
	g.ref("refs/tags/same", first)
	host := serveGit(t, g, "uploadpack.allowReachableSHA1InWant=true")
	strict := serveGit(t, g, "uploadpack.allowReachableSHA1InWant=false")
	tests := map[string]struct {
		ref  string
		want plumbing.Hash
		err  string
	}{
		"HEAD":                       {"", second, ""},
		"HEAD by name":               {"HEAD", second, ""},
		"branch":                     {"release", first, ""},
		"tag":                        {"light", first, ""},
		"annotated tag":              {"v1.0.0", first, ""},
		"whole name":                 {"refs/heads/release", first, ""},
		"commit":                     {first.String(), first, ""},
		"commit that is HEAD":        {second.String(), second, ""},
		"tag and branch alike":       {"same", first, ""},
		"tag and branch that differ": {"both", plumbing.ZeroHash, `git repository URL: "both" is a tag and a branch; write refs/tags/both or refs/heads/both`},
		"misspelt":                   {"relaese", plumbing.ZeroHash, `git repository URL has no tag, branch or commit "relaese"; did you mean "release"?`},
		"short commit":               {first.String()[:9], plumbing.ZeroHash, `git repository URL has no tag, branch or commit "` + first.String()[:9] + `"; a commit is written with all its 40 digits`},
		"commit that is not there":   {strings.Repeat("1", 40), plumbing.ZeroHash, ""},
	}
	for place, url := range map[string]string{"http": host.URL, "http, names only": strict.URL, "folder": g.dir, "file": "file://" + g.dir} {
		for name, test := range tests {
			t.Run(place+"/"+name, func(t *testing.T) {
				src := Source{Git: url, Ref: test.ref, Path: "charts/shop"}
				c, err := Resolve(context.Background(), "", src, ResolveOptions{Network: network(t), TempDir: t.TempDir()})
				if test.want == plumbing.ZeroHash {
					if err == nil {
						t.Fatalf("got %s", c.Source)
					}
					if text := strings.ReplaceAll(err.Error(), url, "URL"); test.err != "" && text != test.err {
						t.Errorf("got  %s\nwant %s", text, test.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				ref := test.ref
				if ref == "" {
					ref = "HEAD"
				}
				if want := url + "//charts/shop@" + ref + "#" + test.want.String(); c.Source != want {
					t.Errorf("source is %s, want %s", c.Source, want)
				}
			})
		}
	}
}

func TestGitChartIsTheFoldersChart(t *testing.T) {
	const more = "-- .helmignore --\n*.bak\n-- a.bak --\nx\n-- templates/deep/er.yaml --\na: b\n"
	folder := fromText(t, shop+more)
	g := newGitRepo(t)
	commit := g.commit(inFolder("charts/shop", shop+more))
	for name, test := range map[string]struct{ baseDir, git, path string }{
		"in a folder of the repository": {"", g.dir, "charts/shop"},
		"spelled otherwise":             {"", g.dir, "./charts//shop/"},
		"beside the release file":       {filepath.Dir(g.dir), "./" + filepath.Base(g.dir), "charts/shop"},
		"the repository's own folder":   {"", filepath.Join(g.dir, ".git"), "/charts/shop"},
	} {
		t.Run(name, func(t *testing.T) {
			src := Source{Git: test.git, Path: test.path}
			c, err := Resolve(context.Background(), test.baseDir, src, ResolveOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Content != folder.Content || c.Files != folder.Files {
				t.Errorf("packed as %s, the folder as %s", c.Content, folder.Content)
			}
			if want := test.git + "//charts/shop@HEAD#" + commit.String(); c.Source != want {
				t.Errorf("source is %s, want %s", c.Source, want)
			}
			if inputs, err := Inputs(context.Background(), test.baseDir, src); err != nil || inputs != c.Inputs {
				t.Errorf("inputs are %s (%v), resolving says %s", inputs, err, c.Inputs)
			}
		})
	}
	root := newGitRepo(t)
	root.commit(shop + more)
	c, err := Resolve(context.Background(), "", Source{Git: root.dir}, ResolveOptions{})
	if err != nil || c.Content != folder.Content {
		t.Errorf("a chart at the root: %v", err)
	}
}

func TestLockedCommitIsFetchedWhateverTheRefSays(t *testing.T) {
	g := newGitRepo(t)
	first := g.commit(shop)
	annotated := g.store(&object.Tag{Name: "v1", Tagger: author, Message: "one", TargetType: plumbing.CommitObject, Target: first})
	g.ref("refs/tags/v1", annotated)
	host := serveGit(t, g, "uploadpack.allowReachableSHA1InWant=true")
	src := Source{Git: host.URL, Ref: "master"}
	opts := ResolveOptions{Network: network(t)}
	locked, err := Resolve(context.Background(), "", src, opts)
	if err != nil {
		t.Fatal(err)
	}
	second := g.commit(strings.Replace(shop, "replicas: 2", "replicas: 3", 1))
	opts.Pinned = &Pinned{Version: locked.Version(), Source: locked.Source, Content: locked.Content, Manifest: locked.Manifest}
	again, err := Resolve(context.Background(), "", src, opts)
	if err != nil {
		t.Fatal(err)
	}
	if again.Content != locked.Content || again.Source != locked.Source {
		t.Errorf("got %s", again.Source)
	}
	src.Ref = "refs/heads/master"
	other, err := Resolve(context.Background(), "", src, opts)
	if err != nil || !strings.HasSuffix(other.Source, second.String()) {
		t.Errorf("another ref is another source: %v", err)
	}
	opts.Pinned.Source = host.URL + "//@master#" + strings.Repeat("2", 40)
	src.Ref = "master"
	_, err = Resolve(context.Background(), "", src, opts)
	if err == nil {
		t.Error("a commit that is not there was found")
	}
}

func TestOneCommitIsFetchedAndNothingLeft(t *testing.T) {
	g := newGitRepo(t)
	big := strings.Repeat("0123456789abcdef", 1<<12)
	for i := range 5 {
		g.commit(shop + "-- big --\n" + big + string(rune('a'+i)) + "\n")
	}
	host := serveGit(t, g)
	temp := t.TempDir()
	shared := NewCache()
	opts := ResolveOptions{Network: network(t), TempDir: temp, Cache: shared}
	for range 2 {
		if _, err := Resolve(context.Background(), "", Source{Git: host.URL}, opts); err != nil {
			t.Fatal(err)
		}
	}
	if len(host.log) != 2 { // the references, and the pack
		t.Errorf("asked %v", host.log)
	}
	commits := 0
	for name := range snapshot(t, temp) {
		if strings.Contains(name, "hooks") {
			t.Errorf("%s was written", name)
		}
		commits++
	}
	if commits == 0 {
		t.Error("nothing was kept in the folder it was told to use")
	}
	info, err := os.ReadDir(temp)
	if err != nil || len(info) != 1 {
		t.Fatalf("want one folder: %v %v", info, err)
	}
	if stat, err := info[0].Info(); err != nil || stat.Mode().Perm() != 0o700 {
		t.Errorf("the folder can be read by others: %v %v", stat.Mode(), err)
	}
	if err := shared.Close(); err != nil {
		t.Fatal(err)
	}
	if left := snapshot(t, temp); len(left) > 0 {
		t.Errorf("left behind: %v", sortedKeys(left))
	}
	opts.Cache = nil
	if _, err := Resolve(context.Background(), "", Source{Git: host.URL, Ref: "nothing"}, opts); err == nil {
		t.Fatal("no error")
	}
	if left := snapshot(t, temp); len(left) > 0 {
		t.Errorf("left behind after a failure: %v", sortedKeys(left))
	}
}

func TestGitTrees(t *testing.T) {
	base := func(more map[string]gitFile) map[string]gitFile {
		files := map[string]gitFile{
			"chart/Chart.yaml":        {filemode.Regular, "apiVersion: v2\nname: shop\nversion: 1.0.0\n"},
			"chart/templates/it.yaml": {filemode.Regular, "a: b\n"},
			"chart/values.yaml":       {filemode.Executable, "x: 1\n"},
			"chart/.helmignore":       {filemode.Regular, "ignored\n"},
			"secret":                  {filemode.Regular, "secret\n"},
			"shared/it.yaml":          {filemode.Regular, "shared\n"},
		}
		for name, file := range more {
			files[name] = file
		}
		return files
	}
	link := func(target string) gitFile { return gitFile{filemode.Symlink, target} }
	submodule := gitFile{filemode.Submodule, strings.Repeat("1", 40)}
	tests := map[string]struct {
		path  string
		files map[string]gitFile
		want  string // a file that has to be there
		err   string
	}{
		"a link to a file":               {"chart", base(map[string]gitFile{"chart/copy": link("values.yaml")}), "copy", ""},
		"a link to a folder":             {"chart", base(map[string]gitFile{"chart/more": link("templates")}), "more/it.yaml", ""},
		"a link through a link":          {"chart", base(map[string]gitFile{"chart/more": link("templates"), "chart/one": link("more/it.yaml")}), "one", ""},
		"a link up and back":             {"chart", base(map[string]gitFile{"chart/one": link("../chart/values.yaml")}), "one", ""},
		"the chart itself by a link":     {"it", base(map[string]gitFile{"it": link("chart")}), "values.yaml", ""},
		"a link out of the chart":        {"chart", base(map[string]gitFile{"chart/one": link("../secret")}), "", `link one (to ../secret) leads out of the chart's folder`},
		"a link to a folder outside":     {"chart", base(map[string]gitFile{"chart/one": link("../shared")}), "", `link one (to ../shared) leads out of the chart's folder`},
		"a link out of the repository":   {"chart", base(map[string]gitFile{"chart/one": link("../../etc/passwd")}), "", `link one (to ../../etc/passwd) leads out of the chart's folder`},
		"a link to an absolute path":     {"chart", base(map[string]gitFile{"chart/one": link("/etc/passwd")}), "", `link one (to /etc/passwd) leads out of the chart's folder`},
		"a link to nothing":              {"chart", base(map[string]gitFile{"chart/one": link("gone")}), "", `link one (to gone) leads nowhere`},
		"a link to itself":               {"chart", base(map[string]gitFile{"chart/one": link("one")}), "", `link one (to one) leads in a circle`},
		"a link to the folder above":     {"chart", base(map[string]gitFile{"chart/templates/up": link("..")}), "", `link templates/up (to chart) leads in a circle`},
		"a link out that is ignored":     {"chart", base(map[string]gitFile{"chart/ignored": link("../secret")}), "values.yaml", ""},
		"a submodule":                    {"chart", base(map[string]gitFile{"chart/sub": submodule}), "", `"sub": is a git submodule, whose files are in another repository; name that repository, or keep the files in this one`},
		"a submodule that is ignored":    {"chart", base(map[string]gitFile{"chart/ignored": submodule}), "values.yaml", ""},
		"a submodule as the chart":       {"sub", base(map[string]gitFile{"sub": submodule}), "", `"sub": is a git submodule`},
		"Git LFS":                        {"chart", base(map[string]gitFile{"chart/big": {filemode.Regular, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"}}), "", `chart/big is kept with Git LFS, and here is only the name of its content; keep it in git itself`},
		"a name that climbs":             {"chart", base(map[string]gitFile{"chart/..": {filemode.Regular, "x"}}), "", `has a name no file may have`},
		"a name with a slash":            {"chart", base(map[string]gitFile{"chart/..SLASHx": {filemode.Regular, "x"}}), "", `has a name no file may have`},
		"a name with a backslash":        {"chart", base(map[string]gitFile{`chart/..\x`: {filemode.Regular, "x"}}), "", `has a name no file may have`},
		"a name with a drive":            {"chart", base(map[string]gitFile{`chart/c:x`: {filemode.Regular, "x"}}), "", `has a drive in its name`},
		"hooks of the repository":        {"chart", base(map[string]gitFile{"chart/.git/hooks/post-checkout": {filemode.Executable, "#!/bin/sh\ntouch /tmp/ran\n"}}), "values.yaml", ""},
		"too large a file":               {"chart", base(map[string]gitFile{"chart/big": {filemode.Regular, strings.Repeat("x", maxChartFileBytes+1)}}), "", `big is larger than Helm loads`},
		"no chart there":                 {"shared", base(nil), "", `chart path "shared": is a folder without Chart.yaml in git repository URL at commit COMMIT; path names the folder that holds Chart.yaml`},
		"the folder of all charts":       {"", base(nil), "", `chart path "": is a folder without Chart.yaml in git repository URL at commit COMMIT; charts below it: chart`},
		"nothing there":                  {"chrat", base(nil), "", `git repository URL has no "chrat" at commit COMMIT; path is a chart's folder in the repository`},
		"out of the repository":          {"../..", base(nil), "", `git repository URL has no "../.." at commit COMMIT; path is a chart's folder in the repository`},
		"a file":                         {"secret", base(nil), "", `chart path "secret": is no chart archive (not compressed with gzip)`},
		"a dependency beside it":         {"chart", base(map[string]gitFile{"chart/Chart.yaml": {filemode.Regular, "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: lib, version: 1.x, repository: 'file://../lib'}]\n"}, "lib/Chart.yaml": {filemode.Regular, "apiVersion: v2\nname: lib\nversion: 1.2.0\n"}}), "charts/lib-1.2.0.tgz", ""},
		"a dependency out of everything": {"chart", base(map[string]gitFile{"chart/Chart.yaml": {filemode.Regular, "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: lib, version: 1.x, repository: 'file://../../lib'}]\n"}}), "", `chart path "file://../../lib": leads out of the git repository`},
		"a dependency of one machine":    {"chart", base(map[string]gitFile{"chart/Chart.yaml": {filemode.Regular, "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: lib, version: 1.x, repository: 'file:///lib'}]\n"}}), "", `chart path "file:///lib": is a path of one machine, and the chart comes from git`},
		"a dependency that is not there": {"chart", base(map[string]gitFile{"chart/Chart.yaml": {filemode.Regular, "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: lib, version: 1.x, repository: 'file://../lib'}]\n"}}), "", `chart path "file://../lib": no such folder in git repository URL at commit COMMIT`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := newGitRepo(t)
			commit := g.commitTree(test.files)
			before := snapshot(t, g.dir)
			c, err := Resolve(context.Background(), "", Source{Git: g.dir, Path: test.path}, ResolveOptions{})
			if diff := cmp.Diff(before, snapshot(t, g.dir)); diff != "" {
				t.Errorf("the repository was changed:\n%s", diff)
			}
			if test.err != "" {
				if err == nil {
					t.Fatal("no error")
				}
				if text := strings.NewReplacer(g.dir, "URL", commit.String(), "COMMIT").Replace(err.Error()); !strings.Contains(text, test.err) {
					t.Errorf("got  %s\nwant %s", text, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if have := strings.Join(names(c), "\n") + "\n"; !strings.Contains(have, test.want+"\n") || strings.Contains(have, ".git/") {
				t.Errorf("packed:\n%s", have)
			}
		})
	}
}

// A few small objects can name each other so often that nobody could unpack
// them.
func TestGitTreeThatUnfolds(t *testing.T) {
	for name, leaf := range map[string]gitFile{"files": {filemode.Regular, "x"}, "folders": {filemode.Dir, ""}} {
		t.Run(name, func(t *testing.T) {
			g := newGitRepo(t)
			hash, mode := g.blob(leaf), leaf.mode
			if mode == filemode.Dir {
				hash = g.store(&object.Tree{})
			}
			for range 10 {
				tree := &object.Tree{}
				for c := 'a'; c <= 'j'; c++ {
					tree.Entries = append(tree.Entries, object.TreeEntry{Name: string(c), Mode: mode, Hash: hash})
				}
				hash, mode = g.store(tree), filemode.Dir
			}
			chart := g.blob(gitFile{filemode.Regular, "apiVersion: v2\nname: shop\nversion: 1.0.0\n"})
			root := g.store(&object.Tree{Entries: []object.TreeEntry{{Name: "Chart.yaml", Mode: filemode.Regular, Hash: chart}, {Name: "more", Mode: filemode.Dir, Hash: hash}}})
			g.ref("refs/heads/master", g.store(&object.Commit{Author: author, Committer: author, TreeHash: root}))
			_, err := Resolve(context.Background(), "", Source{Git: g.dir}, ResolveOptions{})
			if err == nil || !strings.Contains(err.Error(), "the folder holds more than 20000 files and folders") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPackThatIsTooLarge(t *testing.T) {
	many := append([]byte("PACK\x00\x00\x00\x02"), 0xFF, 0, 0, 0)
	_, alive := idleContext(context.Background(), true)
	defer alive.stop()
	pack := &boundedPack{ctx: context.Background(), alive: alive, r: bytes.NewReader(many)}
	if _, err := io.ReadAll(pack); !errors.Is(err, errPackTooLarge) {
		t.Errorf("too many objects: %v", err)
	}
	pack = &boundedPack{ctx: context.Background(), alive: alive, r: strings.NewReader("PACK\x00\x00\x00\x02\x00\x00\x00\x01…"), n: maxPackBytes}
	if _, err := io.ReadAll(pack); !errors.Is(err, errPackTooLarge) {
		t.Errorf("too many bytes: %v", err)
	}
}

func TestArchiveInGit(t *testing.T) {
	chart := fromText(t, shop)
	g := newGitRepo(t)
	g.commitTree(map[string]gitFile{"a/shop.tgz": {filemode.Regular, string(repacked(t, chart))}, "a/shop.tgz.prov": {filemode.Regular, "signed"}})
	c, err := Resolve(context.Background(), "", Source{Git: g.dir, Path: "a/shop.tgz"}, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if string(c.Archive()) != string(repacked(t, chart)) || c.Files != "" {
		t.Error("the archive was changed")
	}
	if len(c.blobs) != 4 {
		t.Error("the signature was left")
	}
}

func TestDependenciesOfAGitChartAreVendored(t *testing.T) {
	server := newFileServer(t)
	server.serveIndex(versionOf(t, "db", "1.0.0"))
	g := newGitRepo(t)
	g.commit(inFolder("chart", parent(server.URL, "- {name: db, version: 1.x, repository: REPO, condition: db.enabled}\n", "db: {enabled: false}\n")))
	src := Source{Git: g.dir, Path: "chart"}
	c, err := Resolve(context.Background(), "", src, ResolveOptions{Network: network(t)})
	if err != nil || len(vendored(c)) != 0 {
		t.Fatalf("switched off: %v", err)
	}
	src.Values = []map[string]any{{"db": map[string]any{"enabled": true}}}
	c, err = Resolve(context.Background(), "", src, ResolveOptions{Network: network(t)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"db-1.0.0.tgz"}, vendored(c)); diff != "" {
		t.Error(diff)
	}
}

func TestGitHostsThatRefuse(t *testing.T) {
	g := newGitRepo(t)
	g.commit(shop)
	empty := newGitRepo(t)
	host := serveGit(t, g)
	code := 0
	host.fault = func(w http.ResponseWriter, _ *http.Request) bool {
		if code != 0 {
			w.WriteHeader(code)
		}
		return code != 0
	}
	for name, test := range map[string]struct {
		code int
		is   func(error) bool
	}{
		"wants a login": {http.StatusUnauthorized, func(err error) bool {
			var denied *registry.DeniedError
			return errors.As(err, &denied) && denied.Status == http.StatusUnauthorized
		}},
		"forbids":   {http.StatusForbidden, func(err error) bool { var denied *registry.DeniedError; return errors.As(err, &denied) }},
		"not there": {http.StatusNotFound, func(err error) bool { var missing *registry.NotFoundError; return errors.As(err, &missing) }},
		"overloaded": {http.StatusServiceUnavailable, func(err error) bool {
			var unreachable *registry.UnreachableError
			return errors.As(err, &unreachable)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			code = test.code
			_, err := Resolve(context.Background(), "", Source{Git: host.URL}, ResolveOptions{Network: network(t)})
			if !test.is(err) || !strings.Contains(err.Error(), "git repository "+host.URL) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("holds nothing", func(t *testing.T) {
		_, err := Resolve(context.Background(), "", Source{Git: serveGit(t, empty).URL}, ResolveOptions{Network: network(t)})
		var missing *NotFoundError
		if !errors.As(err, &missing) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("is no repository", func(t *testing.T) {
		page := newFileServer(t)
		page.files["/info/refs"] = []byte("<html>")
		_, err := Resolve(context.Background(), "", Source{Git: page.URL}, ResolveOptions{Network: network(t)})
		if err == nil || !strings.Contains(err.Error(), "git repository "+page.URL) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a folder without a repository", func(t *testing.T) {
		_, err := Resolve(context.Background(), "", Source{Git: t.TempDir()}, ResolveOptions{})
		var source *SourceError
		if !errors.As(err, &source) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an address without a host that proves itself", func(t *testing.T) {
		_, err := Resolve(context.Background(), "", Source{Git: "git://git.example/shop"}, ResolveOptions{Network: network(t)})
		var gitErr *GitError
		if !errors.As(err, &gitErr) {
			t.Errorf("got %v", err)
		}
	})
}

// accessNetwork says how git is reached, without a transport of its own.
type accessNetwork struct {
	Network
	access GitAccess
}

func (n accessNetwork) Git(context.Context, string) (GitAccess, error) { return n.access, nil }

func TestGitLoginAndCertificates(t *testing.T) {
	g := newGitRepo(t)
	g.commit(shop)
	host := serveGit(t, g)
	secured := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "ann" || password != "sesame" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		host.Config.Handler.ServeHTTP(w, r)
	}))
	defer secured.Close()
	url := secured.URL + "/" + filepath.Base(g.dir) + "/.git"
	ca := pemOf(secured.Certificate())
	tests := map[string]struct {
		url    string
		access GitAccess
		err    string
	}{
		"login and authority":         {url, GitAccess{Username: "ann", Password: "sesame", CABundle: ca}, ""},
		"no check of the certificate": {url, GitAccess{Username: "ann", Password: "sesame", InsecureSkipTLS: true}, ""},
		"reached elsewhere":           {"https://git.example/shop", GitAccess{URL: url, Username: "ann", Password: "sesame", CABundle: ca}, ""},
		"unknown authority":           {url, GitAccess{Username: "ann", Password: "sesame"}, "cannot be reached"},
		"no login":                    {url, GitAccess{CABundle: ca}, "wants a login"},
		"another login":               {url, GitAccess{Username: "ann", Password: "wrong-word", CABundle: ca}, "wants a login"},
		"login in the address":        {strings.Replace(url, "://", "://ann:sesame@", 1), GitAccess{CABundle: ca}, ""},
		"wrong login in the address":  {strings.Replace(url, "://", "://ann:wrong-word@", 1), GitAccess{CABundle: ca}, "wants a login"},
		"proxy that is not there":     {url, GitAccess{Proxy: "http://ann:sesame@127.0.0.1:1", CABundle: ca}, "cannot be reached"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := Resolve(context.Background(), "", Source{Git: test.url}, ResolveOptions{Network: accessNetwork{nil, test.access}})
			if err == nil && test.err == "" {
				if strings.Contains(c.Source, "sesame") {
					t.Errorf("the source tells the password: %s", c.Source)
				}
				return
			}
			if err == nil || test.err == "" || !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got %v, want %q", err, test.err)
			}
			if strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "wrong-word") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestGitRedirectGetsNoLogin(t *testing.T) {
	g := newGitRepo(t)
	g.commit(shop)
	target := serveGit(t, g)
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.TrimSuffix(target.URL, "/"+filepath.Base(g.dir)+"/.git")+r.URL.RequestURI(), http.StatusFound)
	}))
	defer from.Close()
	access := GitAccess{Username: "ann", Password: "sesame"}
	if _, err := Resolve(context.Background(), "", Source{Git: from.URL + "/" + filepath.Base(g.dir) + "/.git"}, ResolveOptions{Network: accessNetwork{nil, access}}); err != nil {
		t.Fatal(err)
	}
	for _, line := range target.log {
		if strings.Contains(line, "Basic") {
			t.Errorf("the login went to another host: %s", line)
		}
	}
}

func TestWorktreeOfAGitRepository(t *testing.T) {
	g := newGitRepo(t)
	g.commit(shop)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git program")
	}
	beside := filepath.Join(t.TempDir(), "beside")
	if out, err := exec.Command("git", "-C", g.dir, "worktree", "add", "--detach", beside).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if _, err := Resolve(context.Background(), "", Source{Git: beside}, ResolveOptions{}); err != nil {
		t.Error(err)
	}
}

func TestGitRepositoryThatIsPacked(t *testing.T) {
	g := newGitRepo(t)
	g.commit(shop)
	g.ref("refs/tags/one", g.commit(shop+"-- more --\nx\n"))
	if err := g.repo.RepackObjects(&git.RepackConfig{}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.repo.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{"https://git.example/x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(context.Background(), "", Source{Git: g.dir, Ref: "one"}, ResolveOptions{}); err != nil {
		t.Error(err)
	}
}
