package charts

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/downloader"
	"helm.sh/helm/v3/pkg/getter"

	"waybill/registry"
)

// What Helm puts into charts/ is what is packed without it, and the lock Helm
// writes is honoured.
func TestDependenciesAreThoseHelmFetches(t *testing.T) {
	for name, test := range map[string]struct{ meta, dependencies string }{
		"Chart.yaml": {"apiVersion: v2\nname: shop\nversion: 1.0.0\n", `
dependencies:
- {name: db, version: 1.x, repository: REPO, alias: store, condition: store.enabled}
- {name: cache, version: ^0.1.0, repository: "@ours", tags: [fast]}
- {name: common, version: ">=1", repository: "file://../common"}
`},
		"requirements.yaml": {"apiVersion: v1\nname: shop\nversion: 1.0.0\n-- shop/requirements.yaml --\n", `
dependencies:
- {name: db, version: 1.x, repository: REPO}
- {name: cache, version: ^0.1.0, repository: "alias:ours"}
`},
	} {
		t.Run(name, func(t *testing.T) {
			server := newFileServer(t)
			server.serveIndex(versionOf(t, "db", "1.0.0"), versionOf(t, "db", "1.4.0-rc.1"), versionOf(t, "db", "1.3.0"), versionOf(t, "cache", "0.1.7"), versionOf(t, "cache", "0.2.0"))
			text := "-- shop/Chart.yaml --\n" + test.meta + test.dependencies + "-- common/Chart.yaml --\napiVersion: v2\nname: common\nversion: 1.1.0\n"
			dir := writeFolder(t, string(bytes.ReplaceAll([]byte(text), []byte("REPO"), []byte(server.URL))))
			home := t.TempDir()
			config := filepath.Join(home, ".config", "helm", "repositories.yaml")
			if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config, []byte("apiVersion: \"\"\nrepositories:\n- {name: ours, url: "+server.URL+"}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			net := network(t, func(s *registry.Settings) { s.Home = home })
			resolve := func() *Chart {
				t.Helper()
				c, err := Resolve(context.Background(), dir, Source{Path: "shop"}, ResolveOptions{Network: net})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			ours := vendoredFiles(resolve())

			t.Setenv("HELM_CACHE_HOME", t.TempDir())
			manager := &downloader.Manager{
				Out: io.Discard, ChartPath: filepath.Join(dir, "shop"), Getters: getter.All(cli.New()),
				RepositoryConfig: config, RepositoryCache: t.TempDir(),
			}
			if err := manager.Update(); err != nil {
				t.Fatal(err)
			}
			theirs := vendoredFiles(resolve()) // charts/ is full now
			delete(ours, "common-1.1.0.tgz")   // which Helm packs with the time of day
			delete(theirs, "common-1.1.0.tgz")
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("(-helm +ours)\n%s", diff)
			}

			if err := os.RemoveAll(filepath.Join(dir, "shop", "charts")); err != nil {
				t.Fatal(err)
			}
			server.serveIndex(versionOf(t, "db", "1.0.0"), versionOf(t, "db", "1.9.0"), versionOf(t, "db", "1.3.0"), versionOf(t, "cache", "0.1.7"), versionOf(t, "cache", "0.1.9"))
			locked := vendoredFiles(resolve())
			delete(locked, "common-1.1.0.tgz")
			if diff := cmp.Diff(theirs, locked); diff != "" {
				t.Errorf("as Helm's lock says (-helm +ours)\n%s", diff)
			}
		})
	}
}

// vendoredFiles are the digests of the archives in charts/, by name.
func vendoredFiles(c *Chart) map[string]string {
	files := map[string]string{}
	for _, f := range c.files {
		if isVendoredArchive(f.Name) {
			files[filepath.Base(f.Name)] = digest.FromBytes(f.Data).String()
		}
	}
	return files
}
