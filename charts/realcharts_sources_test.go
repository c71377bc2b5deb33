package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/repo"

	"waybill/internal/registrytest"
)

// Public charts come out of a chart repository (with the index that Helm
// writes) and out of a registry as they were put there.
func TestRealChartsFromRepositoryAndRegistry(t *testing.T) {
	dir, list := realCharts(t)
	server := newFileServer(t)
	reg := registrytest.New(t, registrytest.Options{})
	index := repo.NewIndexFile()
	archives := map[string][]byte{}
	for _, entry := range list {
		data, err := os.ReadFile(filepath.Join(dir, entry.File))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(data)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		if err := index.MustAdd(loaded.Metadata, "charts/"+entry.File, "", c.Content.Encoded()); err != nil {
			t.Fatal(err)
		}
		server.files["/charts/"+entry.File] = data
		archives[entry.File] = data
		pushChart(t, reg, "public/"+c.Name(), c)
	}
	for form, write := range map[string]func(string, os.FileMode) error{"YAML": index.WriteFile, "JSON": index.WriteJSONFile} {
		file := filepath.Join(t.TempDir(), "index")
		if err := write(file, 0o600); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		server.files["/index.yaml"] = data
		for place, repository := range map[string]string{"repository, index in " + form: server.URL, "registry": "oci://" + reg.Host + "/public"} {
			opts := ResolveOptions{Network: network(t), Cache: NewCache()}
			for _, entry := range list {
				t.Run(fmt.Sprintf("%s/%s", place, entry.File), func(t *testing.T) {
					c, err := Resolve(context.Background(), "", Source{Repository: repository, Name: entry.Name, Version: entry.Version}, opts)
					var dependency *DependencyError
					if errors.As(err, &dependency) && entry.Unvendored != nil {
						return // Helm would not install it either
					}
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(c.Archive(), archives[entry.File]) || c.Version() != entry.Version {
						t.Errorf("got %s %s, %d bytes", c.Name(), c.Version(), len(c.Archive()))
					}
				})
			}
			if err := opts.Cache.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The public index beside the charts is no index of a chart repository; what
// cutting makes of one that Helm wrote is what parsing makes of it.
func TestCutIndexSaysWhatParsingSays(t *testing.T) {
	dir, list := realCharts(t)
	index := repo.NewIndexFile()
	for _, entry := range list {
		data, err := os.ReadFile(filepath.Join(dir, entry.File))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(data)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{"", "-rc.1", "+more"} {
			meta := *loaded.Metadata
			meta.Version += v
			if err := index.MustAdd(&meta, entry.File, "https://charts.example", c.Content.Encoded()); err != nil && v == "" {
				t.Fatal(err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "index")
	if err := index.WriteFile(file, 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cut, ok := cutIndex(data)
	if !ok {
		t.Fatal("the index cannot be cut")
	}
	whole, err := parseWholeIndex(data)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprint(cut.names()), fmt.Sprint(whole.names()); a != b {
		t.Errorf("cut has %s, parsed has %s", a, b)
	}
	for _, name := range whole.names() {
		a, faultsA := cut.versions(name)
		b, faultsB := whole.versions(name)
		if fmt.Sprint(a, faultsA) != fmt.Sprint(b, faultsB) || len(a) == 0 {
			t.Errorf("%s: cut has %v %v, parsed has %v %v", name, a, faultsA, b, faultsB)
		}
	}
}
