package export

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"waybill/bundle"
	"waybill/internal/ref"
)

var update = flag.Bool("update", false, "write the golden files anew")

// expanded are images of these references, and a chart, below a prefix.
func expanded(t *testing.T, prefix string, references ...string) []bundle.Expanded {
	t.Helper()
	var all []bundle.Expanded
	add := func(role, reference string) {
		r, err := ref.Expand(prefix, reference, digest.FromString(reference))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bundle.Expanded{Reference: r, Role: role, Of: reference})
	}
	for _, reference := range references {
		add(bundle.RoleImage, reference)
	}
	add(bundle.RoleChart, "charts.example/web:1.0.0")
	return all
}

var images = []string{
	"docker.io/library/nginx:1.27", "docker.io/library/nginx:1.28", "docker.io/bitnami/redis:7",
	"quay.io:5000/shop/db@" + digest.FromString("db").String(), "localhost:5000/tool:1",
}

func TestNodeConfiguration(t *testing.T) {
	ca := []byte("-----BEGIN CERTIFICATE-----\nbWlycm9y\n-----END CERTIFICATE-----\n")
	mirrors := map[string]Mirror{
		"tls":   {Prefix: "mirror.site:5443/team/m", CA: ca},
		"only":  {Prefix: "mirror.site", CA: ca, Only: true},
		"plain": {Prefix: "10.0.0.1:5000/m", PlainHTTP: true, CA: ca},
		"loose": {Prefix: "mirror.site/m", Insecure: true, CA: ca, Only: true},
	}
	formats := map[string]func([]bundle.Expanded, Mirror) (Config, error){
		"containerd": Containerd,
		"crio":       func(i []bundle.Expanded, m Mirror) (Config, error) { return CRIO(i, "shop", m) },
		"k3s":        K3s,
		"idms":       func(i []bundle.Expanded, m Mirror) (Config, error) { return IDMS(i, "shop", m) },
	}
	for format, write := range formats {
		for name, mirror := range mirrors {
			t.Run(format+" "+name, func(t *testing.T) {
				config, err := write(expanded(t, mirror.Prefix, images...), mirror)
				if err != nil {
					t.Fatal(err)
				}
				checkGolden(t, filepath.Join("testdata", format+"_"+name+".txtar"), config)
			})
		}
	}
}

// checkGolden compares files and notes with those kept in an archive.
func checkGolden(t *testing.T, path string, c Config) {
	t.Helper()
	got := &txtar.Archive{Comment: []byte("base: " + c.Base + "\n")}
	for _, note := range c.Notes {
		got.Comment = append(got.Comment, "note: "+note+"\n"...)
	}
	for _, f := range c.Files {
		got.Files = append(got.Files, txtar.File{Name: f.Path, Data: []byte(f.Content)})
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(txtar.Format(got))); diff != "" {
		t.Error(diff)
	}
}

// K3s applies a rewrite to the repository alone, as Go's regexp does: the name
// that comes out is the one that the mirror has.
func TestK3sRewritesToTheMirror(t *testing.T) {
	all := expanded(t, "mirror.site/m", images...)
	config, err := K3s(all, Mirror{Prefix: "mirror.site/m"})
	if err != nil {
		t.Fatal(err)
	}
	var read k3sRegistries
	if err := yaml.UnmarshalStrict([]byte(config.Files[0].Content), &read); err != nil {
		t.Fatal(err)
	}
	for _, image := range all {
		if image.Role != bundle.RoleImage {
			continue
		}
		of, err := ref.Parse(image.Of)
		if err != nil {
			t.Fatal(err)
		}
		for pattern, replacement := range read.Mirrors[of.Host].Rewrite {
			if got := regexp.MustCompile(pattern).ReplaceAllString(of.Repository, replacement); got != image.Reference.Repository {
				t.Errorf("%s is rewritten to %s, want %s", image.Of, got, image.Reference.Repository)
			}
		}
	}
	if len(read.Mirrors) != 3 {
		t.Errorf("mirrors %v", read.Mirrors)
	}
}
