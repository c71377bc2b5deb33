package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// parent is a chart that depends on others, with the name of the repository
// filled in.
func parent(repository, dependencies, values string, more ...string) string {
	text := "-- Chart.yaml --\napiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies:\n" + strings.ReplaceAll(dependencies, "REPO", repository) + "-- values.yaml --\n" + values
	return text + strings.ReplaceAll(strings.Join(more, ""), "REPO", repository)
}

// vendored are the archives in a chart's charts/.
func vendored(c *Chart) []string {
	list := []string{}
	for _, f := range c.files {
		if isVendoredArchive(f.Name) {
			list = append(list, strings.TrimPrefix(f.Name, "charts/"))
		}
	}
	return list
}

func TestDependenciesAreVendored(t *testing.T) {
	server := newFileServer(t)
	server.serveIndex(versionOf(t, "db", "1.0.0"), versionOf(t, "db", "1.5.0"), versionOf(t, "db", "2.0.0"), versionOf(t, "cache", "0.1.0"), versionOf(t, "cache", "0.2.0"))
	reg := registrytest.New(t, registrytest.Options{})
	pushChart(t, reg, "charts/queue", versionOf(t, "queue", "3.0.0+b1"))
	pushChart(t, reg, "charts/queue", versionOf(t, "queue", "2.0.0"))
	const db = "- {name: db, version: 1.x, repository: REPO}\n"
	const lock = "-- Chart.lock --\ndependencies:\n- {name: db, version: 1.0.0, repository: REPO}\ndigest: sha256:0\n"
	tests := map[string]struct {
		chart  string
		values []map[string]any
		want   []string
		err    string
	}{
		"newest of the range":                   {parent(server.URL, db, ""), nil, []string{"db-1.5.0.tgz"}, ""},
		"as the lock says":                      {parent(server.URL, db, "", lock), nil, []string{"db-1.0.0.tgz"}, ""},
		"a slash more":                          {parent(server.URL, strings.Replace(db, "REPO", "REPO/", 1), "", lock), nil, []string{"db-1.0.0.tgz"}, ""},
		"from a registry":                       {parent("oci://"+reg.Host+"/charts", "- {name: queue, version: ^3.0.0, repository: REPO}\n", ""), nil, []string{"queue-3.0.0+b1.tgz"}, ""},
		"one chart under two names":             {parent(server.URL, "- {name: db, version: 1.x, repository: REPO, alias: one}\n- {name: db, version: 1.x, repository: REPO, alias: two}\n", ""), nil, []string{"db-1.5.0.tgz"}, ""},
		"two versions under two names":          {parent(server.URL, "- {name: db, version: 1.x, repository: REPO, alias: one}\n- {name: db, version: 2.x, repository: REPO, alias: two}\n", ""), nil, []string{"db-1.5.0.tgz", "db-2.0.0.tgz"}, ""},
		"switched off by its condition":         {parent(server.URL, "- {name: db, version: 1.x, repository: REPO, condition: db.enabled}\n", "db: {enabled: false}\n"), nil, []string{}, ""},
		"switched off by a tag":                 {parent(server.URL, "- {name: db, version: 1.x, repository: REPO, tags: [back]}\n", "tags: {back: false}\n"), nil, []string{}, ""},
		"its alias is switched off":             {parent(server.URL, "- {name: db, version: 1.x, repository: REPO, alias: store, condition: store.enabled}\n", "store: {enabled: false}\n"), nil, []string{}, ""},
		"switched on by the values":             {parent(server.URL, "- {name: db, version: 1.x, repository: REPO, condition: db.enabled}\n", "db: {enabled: false}\n"), []map[string]any{{"db": map[string]any{"enabled": true}}}, []string{"db-1.5.0.tgz"}, ""},
		"switched on by one set of values":      {parent(server.URL, "- {name: db, version: 1.x, repository: REPO, condition: db.enabled}\n", "db: {enabled: false}\n"), []map[string]any{{}, {"db": map[string]any{"enabled": true}}}, []string{"db-1.5.0.tgz"}, ""},
		"switched off by the values":            {parent(server.URL, "- {name: db, version: 1.x, repository: REPO, condition: db.enabled}\n", "db: {enabled: true}\n"), []map[string]any{{"db": map[string]any{"enabled": false}}}, []string{}, ""},
		"unreachable, and off":                  {parent("https://127.0.0.1:1", "- {name: db, version: 1.x, repository: REPO, condition: db.enabled}\n", "db: {enabled: false}\n"), nil, []string{}, ""},
		"without a repository, and off":         {parent("", "- {name: db, version: 1.x, condition: db.enabled}\n", "db: {enabled: false}\n"), nil, []string{}, ""},
		"some here, others fetched":             {parent(server.URL, db+"- {name: cache, version: ~0.1.0, repository: REPO}\n", "", "-- charts/db/Chart.yaml --\napiVersion: v2\nname: db\nversion: 1.1.0\n"), nil, []string{"cache-0.1.0.tgz"}, ""},
		"all here, whatever the lock says":      {parent("https://127.0.0.1:1", db, "", "-- charts/db/Chart.yaml --\napiVersion: v2\nname: db\nversion: 1.1.0\n", strings.Replace(lock, "1.0.0", "9.0.0", 1)), nil, []string{}, ""},
		"requirements.yaml of an old chart":     {strings.ReplaceAll("-- Chart.yaml --\napiVersion: v1\nname: shop\nversion: 1.0.0\n-- requirements.yaml --\ndependencies:\n- {name: db, version: 1.x, repository: REPO}\n", "REPO", server.URL), nil, []string{"db-1.5.0.tgz"}, ""},
		"requirements.lock of an old chart":     {strings.ReplaceAll("-- Chart.yaml --\napiVersion: v1\nname: shop\nversion: 1.0.0\n-- requirements.yaml --\ndependencies:\n- {name: db, version: 1.x, repository: REPO}\n-- requirements.lock --\ndependencies:\n- {name: db, version: 1.0.0, repository: REPO}\n", "REPO", server.URL), nil, []string{"db-1.0.0.tgz"}, ""},
		"lock without it":                       {parent(server.URL, db+"- {name: cache, version: 0.x, repository: REPO}\n", "", lock), nil, nil, "chart shop: Chart.lock is out of sync with its dependencies: it has nothing for cache 0.x; `helm dependency update` makes it agree"},
		"lock of another range":                 {parent(server.URL, strings.Replace(db, "1.x", "2.x", 1), "", lock), nil, nil, "chart shop: Chart.lock is out of sync with its dependencies: it locks db 1.0.0, the chart wants 2.x; `helm dependency update` makes it agree"},
		"lock of another repository":            {parent(server.URL, db, "", strings.Replace(lock, "REPO", "https://charts.example", 1)), nil, nil, "chart shop: Chart.lock is out of sync with its dependencies: it locks db from https://charts.example, the chart names REPO; `helm dependency update` makes it agree"},
		"lock with more":                        {parent(server.URL, db, "", strings.Replace(lock, "digest:", "- {name: gone, version: 1.0.0, repository: REPO}\ndigest:", 1)), nil, nil, "chart shop: Chart.lock is out of sync with its dependencies: it locks gone 1.0.0, which is no dependency; `helm dependency update` makes it agree"},
		"lock of an old chart":                  {strings.ReplaceAll("-- Chart.yaml --\napiVersion: v1\nname: shop\nversion: 1.0.0\n-- requirements.yaml --\ndependencies:\n- {name: db, version: 2.x, repository: REPO}\n-- requirements.lock --\ndependencies:\n- {name: db, version: 1.0.0, repository: REPO}\n", "REPO", server.URL), nil, nil, "chart shop: requirements.lock is out of sync with its dependencies: it locks db 1.0.0, the chart wants 2.x; `helm dependency update` makes it agree"},
		"nothing in the range":                  {parent(server.URL, strings.Replace(db, "1.x", "7.x", 1), ""), nil, nil, "dependency db of chart shop: REPO has no chart db 7.x; there is 2.0.0, 1.5.0, 1.0.0"},
		"repository of another kind":            {parent("s3://charts", db, ""), nil, nil, `dependency db of chart shop: repository "s3://charts" is neither https://, http://, oci://, file:// nor @NAME`},
		"misspelt key":                          {parent("", "- {name: db, version: 1.x, repostitory: https://charts.example}\n", ""), nil, nil, `chart shop 1.0.0 needs what its charts/ folder lacks: db 1.x; Chart.yaml: dependency db: unknown key "repostitory", did you mean "repository"?`},
		"misspelt key of one that is absent":    {parent(server.URL, "- {name: db, version: 7.x, repository: REPO, conditon: db.enabled}\n", ""), nil, nil, `dependency db of chart shop: REPO has no chart db 7.x; there is 2.0.0, 1.5.0, 1.0.0; Chart.yaml: dependency db: unknown key "conditon", did you mean "condition"?`}, //nolint:misspell // the fault itself
		"a repository that needs an unset name": {parent("", "- {name: db, version: 1.x, repository: \"@stable\"}\n", ""), nil, nil, "dependency db of chart shop: repository \"@stable\" is not in Helm's repositories.yaml; `helm repo add stable URL` puts it there: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := writeFolder(t, test.chart)
			before := snapshot(t, dir)
			src := Source{Path: ".", Values: test.values}
			c, err := Resolve(context.Background(), dir, src, ResolveOptions{Network: network(t)})
			if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
				t.Errorf("the folder was changed:\n%s", diff)
			}
			if test.err != "" {
				if err == nil {
					t.Fatalf("no error, vendored %v", vendored(c))
				}
				if text := strings.ReplaceAll(err.Error(), server.URL, "REPO"); !strings.HasPrefix(text, test.err) {
					t.Errorf("got  %s\nwant %s", text, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, vendored(c)); diff != "" {
				t.Error(diff)
			}
			inputs, err := Inputs(context.Background(), dir, src)
			if err != nil || inputs != c.Inputs {
				t.Errorf("inputs are %s (%v), resolving says %s", inputs, err, c.Inputs)
			}
		})
	}
}

func TestVendoredBytesAreTheDependencysOwn(t *testing.T) {
	server := newFileServer(t)
	db, err := Open(repacked(t, versionOf(t, "db", "1.0.0")))
	if err != nil {
		t.Fatal(err)
	}
	server.serveIndex(db)
	dir := writeFolder(t, parent(server.URL, "- {name: db, version: 1.x, repository: REPO}\n", ""))
	var first *Chart
	for range 2 {
		c, err := Resolve(context.Background(), dir, Source{Path: "."}, ResolveOptions{Network: network(t)})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range c.files {
			if f.Name == "charts/db-1.0.0.tgz" && !bytes.Equal(f.Data, db.Archive()) {
				t.Error("the archive was changed")
			}
		}
		want := []PinnedDependency{{Name: "db", Version: "1.0.0", Repository: server.URL, Content: db.Content}}
		if diff := cmp.Diff(want, c.Dependencies); diff != "" {
			t.Error(diff)
		}
		rendered, err := c.Render(RenderOptions{HelmRelease: "rel", KubeVersion: "1.33.0"})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(rendered.Manifest, "# Source: shop/charts/db/templates/it.yaml") {
			t.Errorf("the dependency is not rendered:\n%s", rendered.Manifest)
		}
		if first != nil && (first.Content != c.Content || first.Files != c.Files || first.Inputs != c.Inputs) {
			t.Error("packing again gave other bytes")
		}
		first = c
	}
}

func TestPinnedDependencies(t *testing.T) {
	server := newFileServer(t)
	old, newer := versionOf(t, "db", "1.0.0"), versionOf(t, "db", "1.5.0")
	server.serveIndex(newer, old)
	dir := writeFolder(t, parent(server.URL, "- {name: db, version: 1.x, repository: REPO}\n", ""))
	pin := func(version string, content digest.Digest) *Pinned {
		return &Pinned{Dependencies: []PinnedDependency{{Name: "db", Version: version, Repository: server.URL, Content: content}}}
	}
	resolve := func(p *Pinned) (*Chart, error) {
		return Resolve(context.Background(), dir, Source{Path: "."}, ResolveOptions{Network: network(t), Pinned: p})
	}
	c, err := resolve(pin("1.0.0", old.Content))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"db-1.0.0.tgz"}, vendored(c)); diff != "" {
		t.Error(diff)
	}
	if c, err = resolve(pin("0.9.0", old.Content)); err != nil || vendored(c)[0] != "db-1.5.0.tgz" {
		t.Errorf("a pin that the range does not allow is kept: %v", err)
	}
	_, err = resolve(pin("1.0.0", newer.Content))
	want := fmt.Sprintf("dependency db of chart shop: %s now serves another archive as db 1.0.0: locked is %s, served is %s", server.URL, newer.Content, old.Content)
	var moved *MovedError
	if !errors.As(err, &moved) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestFolderDependencies(t *testing.T) {
	server := newFileServer(t)
	server.serveIndex(versionOf(t, "db", "1.0.0"))
	text := func(shopDependency, commonVersion, more string) string {
		return strings.ReplaceAll(`
-- shop/Chart.yaml --
apiVersion: v2
name: shop
version: 1.0.0
dependencies:
`+shopDependency+`
-- shop/values.yaml --
deep: true
-- common/Chart.yaml --
apiVersion: v2
name: common
version: `+commonVersion+`
dependencies:
- {name: db, version: 1.x, repository: REPO, condition: db.enabled}
-- common/values.yaml --
db: {enabled: false}
-- common/templates/it.yaml --
common: {{ .Values.text }}
`+more, "REPO", server.URL)
	}
	const plain = `- {name: common, version: 1.x, repository: "file://../common"}`
	tests := map[string]struct {
		text   string
		values map[string]any
		want   string // folders and archives, deep
		err    string
	}{
		"packed":                        {text(plain, "1.2.0", ""), nil, "common-1.2.0.tgz", ""},
		"with what its values need":     {text(plain, "1.2.0", ""), map[string]any{"common": map[string]any{"db": map[string]any{"enabled": true}}}, "common-1.2.0.tgz(db-1.0.0.tgz)", ""},
		"under an alias":                {text(strings.Replace(plain, "}", ", alias: lib}", 1), "1.2.0", ""), map[string]any{"lib": map[string]any{"db": map[string]any{"enabled": true}}}, "common-1.2.0.tgz(db-1.0.0.tgz)", ""},
		"switched off":                  {text(strings.Replace(plain, "}", ", condition: common.enabled}", 1), "1.2.0", ""), map[string]any{"common": map[string]any{"enabled": false}}, "", ""},
		"of another version":            {text(plain, "2.0.0", ""), nil, "", "dependency common of chart shop: file://../common holds version 2.0.0, and 1.x is wanted"},
		"of another name":               {text(strings.Replace(plain, "name: common", "name: other", 1), "1.0.0", ""), nil, "", "dependency other of chart shop: file://../common holds a chart called common"},
		"that is not there":             {text(strings.Replace(plain, "../common", "../commons", 1), "1.0.0", ""), nil, "", `chart path "file://../commons": no such folder (looked at DIR/commons); a dependency's file:// begins at the folder of the chart that names it`},
		"locked at another version":     {text(plain, "1.2.0", "-- shop/Chart.lock --\ndependencies:\n- {name: common, version: 1.1.0, repository: \"file://../common\"}\n"), nil, "", "dependency common of chart shop: file://../common holds version 1.2.0, and the lock says 1.1.0; helm dependency update makes a new lock"},
		"that depends on what needs it": {strings.Replace(text(plain, "1.2.0", ""), "- {name: db, version: 1.x, repository: "+server.URL+", condition: db.enabled}", `- {name: shop, version: 1.x, repository: "file://../shop"}`, 1), nil, "", `reading chart "file://../shop": its dependencies go in a circle: DIR/shop → DIR/common → DIR/shop`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := writeFolder(t, test.text)
			src := Source{Path: "shop"}
			if test.values != nil {
				src.Values = []map[string]any{test.values}
			}
			c, err := Resolve(context.Background(), dir, src, ResolveOptions{Network: network(t)})
			if test.err != "" {
				if err == nil {
					t.Fatal("no error")
				}
				if diff := cmp.Diff(test.err, strings.ReplaceAll(err.Error(), dir, "DIR")); diff != "" {
					t.Error(diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, deep(t, c)); diff != "" {
				t.Error(diff)
			}
			before, err := Inputs(context.Background(), dir, src)
			if err != nil || before != c.Inputs {
				t.Errorf("inputs are %s (%v), resolving says %s", before, err, c.Inputs)
			}
			if err := os.WriteFile(filepath.Join(dir, "common", "values.yaml"), []byte("text: other\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			after, err := Inputs(context.Background(), dir, src)
			if err != nil {
				t.Fatal(err)
			}
			if changed := before != after; changed != (test.want != "") {
				t.Errorf("a change in the dependency's folder changed the inputs: %v", changed)
			}
		})
	}
}

// deep lists vendored archives with what is vendored in them.
func deep(t testing.TB, c *Chart) string {
	t.Helper()
	var list []string
	for _, f := range c.files {
		if !isVendoredArchive(f.Name) {
			continue
		}
		sub, err := Open(f.Data)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimPrefix(f.Name, "charts/")
		if below := deep(t, sub); below != "" {
			text += "(" + below + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

func TestRepositoryByItsNameInHelmsConfiguration(t *testing.T) {
	server := newFileServer(t)
	server.serveIndex(versionOf(t, "db", "1.0.0"))
	home := t.TempDir()
	config := filepath.Join(home, ".config", "helm", "repositories.yaml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("apiVersion: \"\"\nrepositories:\n- {name: ours, url: "+server.URL+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	known := network(t, func(s *registry.Settings) { s.Home = home })
	lock := "-- Chart.lock --\ndependencies:\n- {name: db, version: 1.0.0, repository: REPO}\n"
	tests := map[string]struct {
		repository string
		lock       string
		network    Network
	}{
		"@name":                                 {`"@ours"`, "", known},
		"alias:name":                            {"alias:ours", "", known},
		"a name that only the lock can explain": {`"@theirs"`, strings.ReplaceAll(lock, "REPO", server.URL), network(t)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := writeFolder(t, parent(test.repository, "- {name: db, version: 1.x, repository: REPO}\n", "")+test.lock)
			c, err := Resolve(context.Background(), dir, Source{Path: "."}, ResolveOptions{Network: test.network})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"db-1.0.0.tgz"}, vendored(c)); diff != "" {
				t.Error(diff)
			}
			if got, want := c.Dependencies[0].Repository, strings.Trim(test.repository, `"`); got != want {
				t.Errorf("the lock would say %s, want %s", got, want)
			}
		})
	}
}

func TestDependencyThatLiesInTheFolderInAnotherVersion(t *testing.T) {
	dir := writeFolder(t, parent("https://127.0.0.1:1", "- {name: db, version: 2.x, repository: REPO}\n", "", "-- charts/db/Chart.yaml --\napiVersion: v2\nname: db\nversion: 1.1.0\n"))
	c, err := Resolve(context.Background(), dir, Source{Path: "."}, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"chart shop has db 1.1.0 in charts/, and its Chart.yaml wants 2.x; it is packed as it is"}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestChartInTheFolderThatLacksWhatItNeeds(t *testing.T) {
	sub := "-- charts/db/Chart.yaml --\napiVersion: v2\nname: db\nversion: 1.1.0\ndependencies:\n- {name: common, version: 1.x, repository: https://charts.example}\n- {name: extra, version: 1.x, repository: https://charts.example, condition: extra.enabled}\n" +
		"-- charts/db/values.yaml --\nextra: {enabled: false}\n"
	dir := writeFolder(t, parent("", "- {name: db, version: 1.x}\n", "", sub))
	for name, test := range map[string]struct {
		values map[string]any
		want   []string
	}{
		"as its values are": {nil, []string{"chart shop: db in its charts/ needs common 1.x, which it lacks; Helm renders it without"}},
		"with more of it": {map[string]any{"db": map[string]any{"extra": map[string]any{"enabled": true}}}, []string{
			"chart shop: db in its charts/ needs common 1.x, which it lacks; Helm renders it without",
			"chart shop: db in its charts/ needs extra 1.x, which it lacks; Helm renders it without",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Resolve(context.Background(), dir, Source{Path: ".", Values: []map[string]any{test.values}}, ResolveOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, c.Warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}
