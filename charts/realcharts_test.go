package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"
)

// realChart is one entry of the index beside the public charts.
type realChart struct {
	File          string `json:"file"`
	Name          string `json:"name"`
	Version       string `json:"version"`
	Type          string `json:"type"`
	Deterministic *bool  `json:"deterministic"`
	Render        struct {
		Defaults      string   `json:"defaults"`
		Set           []string `json:"set"`
		Deterministic *bool    `json:"deterministic"`
	} `json:"render"`
	Unvendored any `json:"unvendored"`
}

func (r realChart) renders() bool {
	return r.Render.Defaults == "yes" || r.Render.Defaults == "no" && len(r.Render.Set) > 0
}

func (r realChart) deterministic() bool {
	return (r.Deterministic == nil || *r.Deterministic) && (r.Render.Deterministic == nil || *r.Render.Deterministic)
}

// realCharts lists public charts kept beside the repository, and skips the
// test where there are none.
func realCharts(t *testing.T) (dir string, list []realChart) {
	t.Helper()
	dir = filepath.Join("..", "..", "shared", "charts")
	data, err := os.ReadFile(filepath.Join(dir, "index.yaml"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no public charts beside the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Charts []realChart `json:"charts"`
	}
	if err := yaml.Unmarshal(data, &index); err != nil {
		t.Fatal(err)
	}
	if len(index.Charts) == 0 {
		t.Fatal("the index lists no charts")
	}
	return dir, index.Charts
}

func setLayers(sets []string) []Layer {
	var layers []Layer
	for _, set := range sets {
		layers = append(layers, Layer{Name: "--set", Set: set})
	}
	return layers
}

func TestRealChartsRenderAsHelmDoes(t *testing.T) {
	dir, list := realCharts(t)
	for _, entry := range list {
		t.Run(entry.Name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, entry.File)
			packed, err := Resolve(context.Background(), dir, Source{Path: entry.File}, ResolveOptions{})
			if !entry.renders() {
				if err == nil {
					_, err = packed.Render(RenderOptions{KubeVersion: "1.33.0"})
				}
				var library *LibraryError
				var dependency *DependencyError
				if !errors.As(err, &library) && !errors.As(err, &dependency) {
					t.Fatalf("got %v, want a refusal: helm does not render it", err)
				}
				t.Log(err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if packed.Name() != entry.Name || packed.Version() != entry.Version {
				t.Errorf("got chart %s %s, want %s %s", packed.Name(), packed.Version(), entry.Name, entry.Version)
			}
			values, err := Merge(setLayers(entry.Render.Set)...)
			if err != nil {
				t.Fatal(err)
			}
			opts := RenderOptions{HelmRelease: "rel", Namespace: "ns", Values: values, KubeVersion: "1.33.0"}
			fromArchive, err := packed.Render(opts)
			if err != nil {
				t.Fatal(err)
			}
			work := t.TempDir()
			unpack(t, file, work)
			unpacked, err := Resolve(context.Background(), work, Source{Path: topFolder(t, work)}, ResolveOptions{})
			if err != nil {
				t.Fatal(err)
			}
			fromFolder, err := unpacked.Render(opts)
			if err != nil {
				t.Fatal(err)
			}
			if !entry.deterministic() {
				return
			}
			if diff := cmp.Diff(fromArchive.Manifest, fromFolder.Manifest); diff != "" {
				t.Errorf("folder renders differently from archive (-archive +folder):\n%s", diff)
			}
			want := helmTemplate(t, file, entry.Render.Set, false)
			if strings.Contains(want, "e+") { // Helm printed a large integer as 1e+06
				want = helmTemplate(t, file, entry.Render.Set, true)
			}
			if diff := cmp.Diff(want, fromArchive.Manifest); diff != "" {
				t.Errorf("not what helm template renders (-helm +got):\n%s", diff)
			}
		})
	}
}

// helmTemplate is helm template over Helm's own loader, on demand with the
// chart's large integers kept whole.
func helmTemplate(t *testing.T, file string, sets []string, whole bool) string {
	t.Helper()
	loaded, err := loader.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if whole {
		if err := keepIntegers(loaded); err != nil {
			t.Fatal(err)
		}
	}
	values, err := Merge(setLayers(sets)...)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ClientOnly, install.DryRun = true, true
	install.ReleaseName, install.Namespace = "rel", "ns"
	install.KubeVersion, err = chartutil.ParseKubeVersion("v1.33.0")
	if err != nil {
		t.Fatal(err)
	}
	record, err := install.Run(loaded, values)
	if err != nil {
		t.Fatal(err)
	}
	return record.Manifest
}

// unpack writes an archive the test trusts to a folder.
func unpack(t *testing.T, file, dir string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(zr); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		name := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func topFolder(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("want one folder, got %v (%v)", entries, err)
	}
	return entries[0].Name()
}
