// Package waybill_test guards the plan of the house: which room imports which,
// and which libraries stay in which room.
package waybill_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport says, for each room, which rooms of ours its code (without its
// tests) imports.
var mayImport = map[string][]string{
	"waybill/internal/ref":               {},
	"waybill/internal/near":              {},
	"waybill/internal/beside":            {},
	"waybill/internal/files":             {"waybill/internal/beside"},
	"waybill/internal/tarball":           {},
	"waybill/internal/disk":              {},
	"waybill/internal/registrytest":      {},
	"waybill/internal/netrc":             {},
	"waybill/internal/htpasswd":          {},
	"waybill/internal/credentials":       {"waybill/internal/files", "waybill/internal/ref"},
	"waybill/bundle":                     {"waybill/internal/ref", "waybill/internal/tarball", "waybill/internal/near"},
	"waybill/registry":                   {"waybill/internal/beside", "waybill/internal/credentials", "waybill/internal/disk", "waybill/internal/files", "waybill/internal/netrc", "waybill/internal/ref", "waybill/internal/tarball", "waybill/internal/near"},
	"waybill/charts/images":              {"waybill/internal/ref"},
	"waybill/test/score":                 {"waybill/charts", "waybill/charts/images", "waybill/internal/ref"},
	"waybill/charts":                     {"waybill/charts/images", "waybill/internal/ref", "waybill/internal/tarball", "waybill/internal/near"},
	"waybill/signing":                    {},
	"waybill/export":                     {"waybill/bundle", "waybill/internal/ref"},
	"waybill/rollout":                    {"waybill/bundle", "waybill/internal/near", "waybill/internal/ref"},
	"waybill/internal/script":            {"waybill/internal/registrytest", "waybill/internal/flags", "waybill/registry"},
	"waybill/internal/door":              {"waybill/bundle", "waybill/registry", "waybill/signing", "waybill/internal/files"},
	"waybill/internal/releasefile":       {"waybill/bundle", "waybill/charts", "waybill/registry", "waybill/internal/files", "waybill/internal/ref"},
	"waybill/internal/draft":             {"waybill/internal/files"},
	"waybill/test/bench":                 {},
	"waybill/test/cluster":               {},
	"waybill/test/cluster/cmd/cluster":   {"waybill/test/cluster"},
	"waybill/test/node":                  {"waybill/test/cluster"},
	"waybill/test/node/images/pause":     {},
	"waybill/test/node/images/job":       {},
	"waybill/test/node/images/web":       {},
	"waybill/test/node/images/check":     {"waybill/test/node/images/incluster"},
	"waybill/test/node/images/operator":  {"waybill/test/node/images/incluster"},
	"waybill/test/node/images/incluster": {},
}

// anything is for rooms that may import every room.
var anything = []string{"waybill/internal/flags", "waybill/internal/ui", "waybill/cmd/bundle", "waybill/cmd/apply"}

// onlyIn says which rooms may import a library directly.
var onlyIn = map[string][]string{
	"helm.sh/helm/":                        {"waybill/charts"},
	"github.com/go-git/":                   {"waybill/charts"},
	"github.com/sigstore/":                 {"waybill/signing"},
	"k8s.io/client-go/":                    {"waybill/charts", "waybill/rollout", "waybill/cmd/apply", "waybill/test/cluster", "waybill/test/node"},
	"oras.land/oras-go/v2/registry/remote": {"waybill/registry", "waybill/internal/credentials"},
	"github.com/urfave/cli":                {"waybill/cmd/bundle", "waybill/cmd/apply", "waybill/internal/flags", "waybill/internal/script"},
}

func TestImportsPointAsDrawn(t *testing.T) {
	for _, p := range list(t, "./...") {
		allowed, known := mayImport[p.ImportPath]
		if !known && !slices.Contains(anything, p.ImportPath) {
			if len(p.GoFiles) > 0 {
				t.Errorf("%s is in no plan: say in this test what it may import", p.ImportPath)
			}
			continue
		}
		for _, imported := range p.Imports {
			if known && strings.HasPrefix(imported, "waybill/") && !slices.Contains(allowed, imported) {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
			for library, rooms := range onlyIn {
				if strings.HasSuffix(imported, "/errcode") { // the error types alone
					continue
				}
				if strings.HasPrefix(imported, library) && !slices.Contains(rooms, p.ImportPath) {
					t.Errorf("%s imports %s, which only %s may", p.ImportPath, imported, strings.Join(rooms, ", "))
				}
			}
		}
	}
}

// A bundle can be read by a program that links no Helm, cosign or client-go.
func TestBundleLinksNoHeavyLibrary(t *testing.T) {
	for _, p := range list(t, "-deps", "waybill/bundle") {
		for _, heavy := range []string{"helm.sh/", "github.com/sigstore/", "k8s.io/client-go", "k8s.io/apimachinery"} {
			if strings.HasPrefix(p.ImportPath, heavy) {
				t.Errorf("waybill/bundle links %s", p.ImportPath)
			}
		}
		for _, foreign := range []string{"net/http"} {
			if p.ImportPath == "waybill/bundle" && slices.Contains(p.Imports, foreign) {
				t.Errorf("waybill/bundle imports %s", foreign)
			}
		}
	}
}

type goPackage struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,GoFiles"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
