package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func readTestdata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustRelease(t *testing.T, text string) *Release {
	t.Helper()
	rel, err := ParseRelease("release.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rel
}

func TestParseRelease(t *testing.T) {
	got, err := ParseRelease("release.yaml", readTestdata(t, "release.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Release{
		APIVersion: "waybill/v1", Kind: "Release", Name: "shop", Version: "1.4.0+build.7", Kubernetes: ">=1.28",
		Render:    &Render{KubeVersions: []string{"1.30.0", "1.34.0"}, APIVersions: []string{"monitoring.coreos.com/v1"}},
		Platforms: []string{"linux/amd64"},
		Stages:    []string{"base", "apps"},
		Components: []Component{
			{Name: "db", Stage: "base", Chart: ChartSource{Path: "charts/db"}, Namespace: "shop", CreateNamespace: true,
				ValuesFiles: []string{"values/db.yaml"}, CRDs: "skip", Timeout: Duration(90 * time.Minute)},
			{Name: "web", Stage: "apps", Chart: ChartSource{Repository: "https://charts.example.com/", Name: "app", Version: "~1.14.0"},
				Namespace: "shop", Needs: []string{"db"},
				Values: map[string]any{
					"id": json.Number("12345678901234567"), "tag": "1e10", "octal": json.Number("83"), "true": true,
					"resources": map[string]any{"requests": map[string]any{"cpu": "100m"}},
				},
				Profiles:   []Profile{{Name: "ha", Values: map[string]any{"replicas": json.Number("3")}}},
				Parameters: &Parameters{Schema: map[string]any{"properties": map[string]any{"replicas": map[string]any{"type": "integer"}}}},
				Images: []ImageRef{
					{Ref: "quay.io/example/helper:v1"},
					{Ref: "quay.io/example/other:v2", Platforms: []string{"linux/amd64"}, Reason: "started by web"},
				},
				IgnoreImages: []string{"*/debug:*"}},
			{Name: "admin", Stage: "apps", Chart: ChartSource{Git: "https://git.example.com/admin.git", Ref: "v1.2.3", Path: "chart"},
				ReleaseName: "shop-admin", Namespace: "shop"},
			{Name: "rules", Stage: "apps", Chart: ChartSource{Manifests: []string{"rules/a.yaml", "rules/b.yaml"}}, Namespace: "shop"},
		},
		Images: []ImageRef{{Ref: "quay.io/example/tool:v3"}},
		Shape:  "flat",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Release{})); diff != "" {
		t.Errorf("parsed release (-want +got):\n%s", diff)
	}
	if problems := got.Check(); problems != nil {
		t.Errorf("Check: %v", problems)
	}
}

func TestDefaults(t *testing.T) {
	c := Component{Name: "db"}
	if c.HelmRelease() != "db" || c.CRDPolicy() != CRDsUpgrade || c.ReadyTimeout() != 10*time.Minute {
		t.Errorf("defaults are %s, %s, %s", c.HelmRelease(), c.CRDPolicy(), c.ReadyTimeout())
	}
	c = Component{Name: "db", ReleaseName: "x", CRDs: CRDsSkip, Timeout: Duration(time.Second)}
	if c.HelmRelease() != "x" || c.CRDPolicy() != CRDsSkip || c.ReadyTimeout() != time.Second {
		t.Errorf("set values are %s, %s, %s", c.HelmRelease(), c.CRDPolicy(), c.ReadyTimeout())
	}
}

// head begins a release file; component continues it with one component's beginning.
const (
	head      = "apiVersion: waybill/v1\nkind: Release\nname: shop\n"
	component = "components:\n- name: db\n  chart: {path: x}\n  namespace: shop\n"
)

func TestReleaseProblems(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{`r:1:1: is empty: want a mapping`}},
		{"only a comment", "# later\n", []string{`r:1:1: is empty: want a mapping`}},
		{"a list", "- a\n", []string{`r:1:1: want a mapping, got a list`}},
		{"broken syntax", head + "components: [a\n", []string{`r:4:13: not YAML: sequence end token ']' not found`}},
		{"tab", "a:\n\tb: c\n", []string{"r:2:1: not YAML: found character '\t' that cannot start any token"}},
		{"no UTF-8", "name: \xff", []string{`r: is not UTF-8 text`}},
		{"unknown anchor", "a: *x\n", []string{`r: not YAML: unknown anchor 'x' referenced`}},
		{"anchor in itself", "a: &a [*a]\n", []string{`r:1:8: anchor "a" contains itself`}},
		{"two documents", head + component + "---\na: 1\n", []string{`r:8:1: holds several documents; one file holds one`}},
		{"duplicate key", head + "name: two\n" + component, []string{`r:4:1: key "name" is there twice, first on line 3`}},
		{"duplicate key by YAML 1.1", "yes: 1\ntrue: 2\n", []string{`r:2:1: key "true" is there twice, first on line 1`}},
		{"a key that is a list", "[a]: 1\n", []string{`r:1:1: a key must be text`}},
		{"unknown key", head + "stges: []\n" + component + "  need: []\n", []string{
			`r:4:1: unknown key "stges"; did you mean "stages"?`,
			`r:9:3: components[0]: unknown key "need"; did you mean "needs"?`,
		}},
		{"key in other case", head + component + "  Timeout: 1m\n", []string{`r:8:3: components[0]: unknown key "Timeout"; did you mean "timeout"?`}},
		{"unknown key like none", head + "zzzzz: 1\n" + component, []string{`r:4:1: unknown key "zzzzz"`}},
		{"missing keys", "apiVersion: waybill/v1\nkind: Release\ncomponents:\n- chart: {path: x}\n", []string{
			`r:1:1: key "name" is missing`,
			`r:4:3: components[0]: key "name" is missing`,
			`r:4:3: components[0]: key "namespace" is missing`,
		}},
		{"numbers where text is needed", head + "version: 1.10\nrender: {kubeVersions: [1.30]}\n" + component, []string{
			`r:4:10: version: want text, got the number 1.10: quote it: "1.10"`,
			`r:5:25: render.kubeVersions[0]: want text, got the number 1.30: quote it: "1.30"`,
		}},
		{"boolean where text is needed", head + "components:\n- name: y\n  chart: {path: x}\n  namespace: shop\n", []string{
			`r:5:9: components[0].name: want text, got the boolean y: quote it: "y"`,
		}},
		{"text where a list is needed", head + component + "  needs: a\n", []string{`r:8:10: components[0].needs: want a list, got the text "a"`}},
		{"nothing where a mapping is needed", head + component + "  values:\n", []string{`r:8:10: components[0].values: is empty: want a mapping, or leave the key out`}},
		{"other kind", strings.Replace(head, "Release", "Site", 1) + component, []string{`r:2:7: kind: want "Release", got "Site"`}},
		{"other version of the format", strings.Replace(head, "v1", "v2", 1) + component, []string{`r:1:13: apiVersion: want "waybill/v1", got "waybill/v2"`}},
		{"bad name and version", "apiVersion: waybill/v1\nkind: Release\nname: Shop\nversion: v1.0.0\n" + component, []string{
			`r:3:7: name: "Shop" is not a DNS label: lower case letters, digits and '-', a letter or digit at both ends`,
			`r:4:10: version: "v1.0.0" is not a semantic version such as 1.2.3, without a leading v`,
		}},
		{"long names", "apiVersion: waybill/v1\nkind: Release\nname: " + strings.Repeat("a", 41) + "\ncomponents:\n- name: " + strings.Repeat("b", 54) + "\n  chart: {path: x}\n  namespace: ns\n", []string{
			`r:3:7: name: is 41 characters long, more than 40`,
			`r:5:9: components[0].name: is 54 characters long, more than 53`,
		}},
		{"bad choice of words", head + component + "  crds: updrade\n", []string{
			`r:8:9: components[0].crds: want one of "upgrade", "create", "skip", got "updrade"; did you mean "upgrade"?`,
		}},
		{"bad time span", head + component + "  timeout: 10 minutes\n", []string{`r:8:12: components[0].timeout: "10 minutes" is not a time span such as 10m or 1h30m`}},
		{"two kinds of chart", head + "components:\n- name: db\n  chart: {path: x, manifests: [z]}\n  namespace: shop\n", []string{
			`r:6:3: components[0].chart: want exactly one of: repository with name and version; path; git with ref and path; manifests`,
		}},
		{"chart with a typing error", head + "components:\n- name: db\n  chart: {pth: x}\n  namespace: shop\n", []string{
			`r:6:11: components[0].chart: unknown key "pth"; did you mean "path"?`,
		}},
		{"no components", head + "components: []\n", []string{`r:4:1: components: is empty: want at least one entry`}},
		{"images in neither form", head + "images: [5, {rf: x}]\n" + component, []string{
			`r:4:10: images[0]: want a reference as text or a mapping with ref, got the number 5`,
			`r:4:13: images[1]: key "ref" is missing`,
			`r:4:14: images[1]: unknown key "rf"; did you mean "ref"?`,
		}},
		{"unknown key in what is merged", head + "x-base: &base\n  nam: z\n" + component + "  <<: *base\n", []string{
			`r:5:3: components[0]: unknown key "nam"; did you mean "name"?`,
		}},
		{"the same stage twice", head + "stages: [a, a]\n" + component, []string{`r:4:1: stages: entries 1 and 2 are the same`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseRelease("r", []byte(tt.text))
			var bad *FileError
			if !errors.As(err, &bad) {
				t.Fatalf("error is %v, want a FileError", err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAliasesAreBounded(t *testing.T) {
	long := strings.Repeat("a", 1<<16)
	bomb := "x-a: &a " + long + "\nx-b: [" + strings.Repeat("*a, ", 1000) + "]\n"
	nested := "x-0: &x0 [lol, lol]\n"
	for i := 1; i < 40; i++ {
		nested += strings.NewReplacer("N", string(rune('0'+i%10))+strings.Repeat("z", i/10), "M", string(rune('0'+(i-1)%10))+strings.Repeat("z", (i-1)/10)).
			Replace("x-N: &xN [*xM, *xM]\n")
	}
	for name, text := range map[string]string{"long text": bomb, "nested lists": nested, "long document": strings.Repeat("# x\n", maxDocumentBytes/4+1)} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := ParseRelease("r", []byte(text))
			var bad *FileError
			if !errors.As(err, &bad) || len(bad.Problems) != 1 || !strings.Contains(err.Error(), "more than") {
				t.Errorf("error is %v", err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// However much is wrong, the answer is short and comes soon.
func TestProblemsAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"images":       head + component + "images: [" + strings.Repeat("1, ", 30_000) + "]\n",
		"unknown keys": head + component + manyKeys(10_000),
		"needs":        head + component + "  needs: [" + strings.ReplaceAll(manyKeys(10_000), ": 1\n", ", ") + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			rel, err := ParseRelease("r", []byte(text))
			var problems []Problem
			var bad *FileError
			if errors.As(err, &bad) {
				problems = bad.Problems
			} else {
				problems = rel.Check()
			}
			if len(problems) == 0 || len(problems) > maxProblems {
				t.Errorf("%d problems", len(problems))
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

func TestMergeKeysOverride(t *testing.T) {
	rel := mustRelease(t, head+"x-base: &base {namespace: shop, crds: skip}\ncomponents:\n- <<: *base\n  name: db\n  chart: {path: x}\n  crds: create\n")
	if c := rel.Components[0]; c.Namespace != "shop" || c.CRDs != "create" {
		t.Errorf("merged component is %+v", c)
	}
}

func TestParseValues(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]any
		wantErr    string
	}{
		{"mapping", "id: 356136738\nbig: 18446744073709551615\noff: no\n", map[string]any{"id": json.Number("356136738"), "big": json.Number("18446744073709551615"), "false": false}, ""},
		{"comments only", "# nothing\n", map[string]any{}, ""},
		{"empty", "", map[string]any{}, ""},
		{"null", "---\nnull\n", map[string]any{}, ""},
		{"a list", "- a\n", nil, "v:1:1: want a mapping of values"},
		{"twice", "a: 1\na: 2\n", nil, `v:2:1: key "a" is there twice, first on line 1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseValues("v", []byte(tt.text))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if text := errText(err); text != tt.wantErr {
				t.Errorf("error is %q, want %q", text, tt.wantErr)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestParsePolicy(t *testing.T) {
	const begin = "apiVersion: waybill/v1\nkind: Policy\n"
	got, err := ParsePolicy("policy.yaml", []byte(begin+"keys: [vendor.pub]\nidentities: [{issuer: https://i.example, subjectRegexp: .*@x}]\nthreshold: 2\nrequireLog: true\nrequireTimestamp: true\ntrustedRoot: root.json\nallowUnsigned: true\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &VerifyBlock{Keys: []string{"vendor.pub"}, Identities: []Identity{{Issuer: "https://i.example", SubjectRegexp: ".*@x"}},
		Threshold: 2, RequireLog: true, RequireTimestamp: true, TrustedRoot: "root.json", AllowUnsigned: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"":                            "p:1:1: names nobody: want keys, identities or allowUnsigned: true",
		"allowUnsigned: false\n":      "p:1:1: names nobody: want keys, identities or allowUnsigned: true",
		"keys: []\n":                  "p:3:1: keys: is empty: want at least one entry",
		"kyes: [a]\n":                 `p:3:1: unknown key "kyes"; did you mean "keys"?`,
		"keys: [a]\nthreshold: 0\n":   "p:4:12: threshold: want 1 or more, got 0",
		"identities: [{issuer: a}]\n": "p:3:14: identities[0]: want exactly one of: subject; subjectRegexp",
		"identities: [{issuer: a, subject: b, subjectRegexp: c}]\n": "p:3:14: identities[0]: want exactly one of: subject; subjectRegexp",
		"keys: [a]\nx-mine: 1\n":                                    `p:4:1: unknown key "x-mine"`,
		"keys: [a]\nthreshold: 99999999999999999999\n":              "p:4:12: threshold: want 100 or less, got 100000000000000000000",
	} {
		if _, err := ParsePolicy("p", []byte(begin+text)); errText(err) != want {
			t.Errorf("policy %q: error is %q, want %q", text, errText(err), want)
		}
	}
}
