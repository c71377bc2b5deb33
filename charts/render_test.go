package charts

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const renderChart = `
-- Chart.yaml --
apiVersion: v2
name: all
version: 1.0.0
kubeVersion: ">=1.28.0-0"
-- crds/thing.yaml --
kind: CustomResourceDefinition
-- templates/NOTES.txt --
Hello {{ .Release.Name }}.
-- templates/service.yaml --
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}
-- templates/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: facts}
data:
  kube: {{ .Capabilities.KubeVersion.Version }}
  monitoring: {{ .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" | quote }}
  apps: {{ .Capabilities.APIVersions.Has "apps/v1" | quote }}
  upgrade: {{ .Release.IsUpgrade | quote }}
  lookup: {{ lookup "v1" "Secret" "x" "y" | toJson }}
---
# nothing
-- templates/hook.yaml --
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
-- templates/test.yaml --
apiVersion: v1
kind: Pod
metadata: {name: check, annotations: {helm.sh/hook: test}}
-- templates/fail.yaml --
{{- if .Values.fail }}{{ fail "asked to fail" }}{{ end }}
{{- if .Values.broken }}a: [{{ end }}
`

func TestRenderSeparatesWhatItRenders(t *testing.T) {
	got, err := fromText(t, renderChart).Render(RenderOptions{
		HelmRelease: "rel", Namespace: "ns", KubeVersion: "1.31.0", APIVersions: []string{"monitoring.coreos.com/v1"}, Upgrade: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	got.record = nil
	var objects []string
	for _, o := range got.Objects {
		objects = append(objects, o.APIVersion+" "+o.Title()+" "+o.Namespace+" "+o.Template)
	}
	got.Objects = nil
	want := &Rendered{
		Manifest: `---
# Source: all/templates/config.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: facts}
data:
  kube: v1.31.0
  monitoring: "true"
  apps: "true"
  upgrade: "true"
  lookup: {}
---
# Source: all/templates/service.yaml
apiVersion: v1
kind: Service
metadata: {name: rel, namespace: ns}
---
# Source: all/templates/config.yaml
# nothing
`,
		Hooks:       []Hook{{Name: "migrate", Kind: "Job", Path: "all/templates/hook.yaml", Events: []string{"pre-install", "pre-upgrade"}, Manifest: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}}"}},
		Tests:       []Hook{{Name: "check", Kind: "Pod", Path: "all/templates/test.yaml", Events: []string{"test"}, Manifest: "apiVersion: v1\nkind: Pod\nmetadata: {name: check, annotations: {helm.sh/hook: test}}"}},
		CRDs:        []File{{Name: "all/crds/thing.yaml", Data: []byte("kind: CustomResourceDefinition\n")}},
		Notes:       "Hello rel.\n",
		KubeVersion: "v1.31.0",
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Rendered{})); diff != "" {
		t.Error(diff)
	}
	wantObjects := []string{"v1 ConfigMap/facts  all/templates/config.yaml", "v1 Service/rel ns all/templates/service.yaml"}
	if diff := cmp.Diff(wantObjects, objects); diff != "" {
		t.Error(diff)
	}
}

func TestRenderErrorsNameChartAndTemplate(t *testing.T) {
	c := fromText(t, renderChart)
	tests := map[string]struct {
		opts RenderOptions
		want []string
	}{
		"fail":              {RenderOptions{Values: map[string]any{"fail": true}}, []string{"chart all 1.0.0", "v1.37.0", "all/templates/fail.yaml:1", "asked to fail"}},
		"no YAML":           {RenderOptions{Values: map[string]any{"broken": true}}, []string{"chart all 1.0.0", "all/templates/fail.yaml"}},
		"Kubernetes of old": {RenderOptions{KubeVersion: "1.20.0"}, []string{"chart all 1.0.0", "v1.20.0", ">=1.28.0-0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := c.Render(test.opts)
			var render *RenderError
			if !errors.As(err, &render) {
				t.Fatalf("got %v, want a RenderError", err)
			}
			for _, word := range test.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is not in: %v", word, err)
				}
			}
		})
	}
	if _, err := c.Render(RenderOptions{KubeVersion: "latest"}); err == nil || !strings.Contains(err.Error(), `"latest"`) {
		t.Errorf("got %v, want the version named", err)
	}
}

func TestRenderWithWhatAClusterReports(t *testing.T) {
	got, err := fromText(t, renderChart).Render(RenderOptions{KubeVersion: "v1.31.4-eks-1", APIVersions: []string{"v1"}, OnlyAPIVersions: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"kube: v1.31.4-eks-1", `apps: "false"`} {
		if !strings.Contains(got.Manifest, line) {
			t.Errorf("%q is not in:\n%s", line, got.Manifest)
		}
	}
}

func TestRenderMayRunSideBySide(t *testing.T) {
	c := fromText(t, renderChart)
	var wg sync.WaitGroup
	for _, api := range []string{"a/v1", "monitoring.coreos.com/v1", "b/v1", "c/v1"} {
		wg.Go(func() {
			got, err := c.Render(RenderOptions{APIVersions: []string{api}})
			if err != nil {
				t.Error(err)
				return
			}
			if has := strings.Contains(got.Manifest, `monitoring: "true"`); has != (api == "monitoring.coreos.com/v1") {
				t.Errorf("%s sees the API versions of another", api)
			}
		})
	}
	wg.Wait()
}

func TestLibraryChartsDoNotRender(t *testing.T) {
	_, err := fromText(t, "-- Chart.yaml --\napiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n").Render(RenderOptions{})
	var library *LibraryError
	if !errors.As(err, &library) {
		t.Errorf("got %v, want a LibraryError", err)
	}
}

func TestRenderVersions(t *testing.T) {
	tests := map[string]struct {
		kubeRange string
		want      string
	}{
		"none":              {"", "1.28.0 1.37.0"},
		"from":              {">=1.30", "1.30.0 1.37.0"},
		"from a prerelease": {">=1.31.0-0", "1.31.0 1.37.0"},
		"older than we are": {">=1.25", "1.25.0 1.37.0"},
		"from a patch":      {">=1.29.4", "1.29.4 1.37.0"},
		"between":           {">=1.29 <1.33", "1.29.0 1.32.0"},
		"one":               {"~1.30", "1.30.0"},
		"future":            {">=1.99", `error: range of Kubernetes versions ">=1.99" allows none up to 1.37.0, the newest known`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			versions, err := RenderVersions(test.kubeRange)
			got := strings.Join(versions, " ")
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestAllowsKube(t *testing.T) {
	tests := map[string]struct {
		kubeRange, version string
		want               bool
	}{
		"exactly":              {">=1.28", "1.28.0", true},
		"too old":              {">=1.28", "v1.27.9", false},
		"a cloud's mark":       {">=1.28", "v1.28.3-eks-4f4795d", true},
		"another cloud's":      {">=1.31.0", "v1.31.0-gke.1200", true},
		"a distribution's":     {"<1.32", "v1.31.9+k3s1", true},
		"no range":             {"", "v1.2.3", true},
		"a mark does not help": {">=1.31.1", "v1.31.0-gke.1200", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := AllowsKube(test.kubeRange, test.version)
			if err != nil || got != test.want {
				t.Errorf("got %t, %v; want %t", got, err, test.want)
			}
		})
	}
	for _, bad := range [][2]string{{"newer", "1.30.0"}, {">=1.30", "newest"}} {
		if _, err := AllowsKube(bad[0], bad[1]); err == nil {
			t.Errorf("%q with %q: no error", bad[0], bad[1])
		}
	}
}

// The newest version known moves with the client libraries.
func TestNewestKubeVersionIsThatOfTheLibraries(t *testing.T) {
	data, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	minor := strings.Split(NewestKubeVersion(), ".")[1]
	if !strings.Contains(string(data), "k8s.io/client-go v0."+minor+".") {
		t.Errorf("go.mod has no client-go v0.%s", minor)
	}
}
