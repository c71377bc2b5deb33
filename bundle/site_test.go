package bundle

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const siteText = `apiVersion: waybill/v1
kind: Site
site: berlin-1
release: shop
instance: shop
stateNamespace: waybill-system
registry: {caFiles: [corp.pem]}
components:
  db: {enabled: false}
  web:
    profile: ha
    namespace: dns
    valuesFiles: [values/dns.yaml]
    valuesFrom: [{kind: Secret, name: aws, namespace: dns, valuesKey: key, targetPath: aws.credentials.secretKey, optional: false}]
    values: {policy: upsert-only, port: 8080}
images:
  mode: relocate
  registry: harbor.site/platform/loko
  pullSecret: {namespace: waybill-system, name: harbor}
  replace: [{name: "docker.io/library/nginx:1.27", newName: harbor.site/hotfix/nginx, digest: "sha256:0123456789012345678901234567890123456789012345678901234567890123", reason: CVE-2026-1234}]
  allow: ["harbor.site/ops/*"]
verify: {keys: [vendor.pub], threshold: 1}
historyMax: 10
`

func TestParseSite(t *testing.T) {
	got, err := ParseSite("site.yaml", []byte(siteText))
	if err != nil {
		t.Fatal(err)
	}
	off := false
	want := &Site{
		APIVersion: "waybill/v1", Kind: "Site", Site: "berlin-1", Release: "shop", Instance: "shop", StateNamespace: "waybill-system",
		Registry: &SiteRegistry{CAFiles: []string{"corp.pem"}},
		Components: map[string]SiteComponent{
			"db": {Enabled: &off},
			"web": {Profile: "ha", Namespace: "dns", ValuesFiles: []string{"values/dns.yaml"},
				ValuesFrom: []ValuesFrom{{Kind: "Secret", Name: "aws", Namespace: "dns", ValuesKey: "key", TargetPath: "aws.credentials.secretKey"}},
				Values:     map[string]any{"policy": "upsert-only", "port": json.Number("8080")}},
		},
		Images: &SiteImages{Mode: "relocate", Registry: "harbor.site/platform/loko", PullSecret: &PullSecret{Namespace: "waybill-system", Name: "harbor"},
			Replace: []ReplaceImage{{Name: "docker.io/library/nginx:1.27", NewName: "harbor.site/hotfix/nginx", Digest: "sha256:0123456789012345678901234567890123456789012345678901234567890123", Reason: "CVE-2026-1234"}},
			Allow:   []string{"harbor.site/ops/*"}},
		Verify: &VerifyBlock{Keys: []string{"vendor.pub"}, Threshold: 1}, HistoryMax: 10,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Site{})); diff != "" {
		t.Errorf("site (-want +got):\n%s", diff)
	}
	if got.Components["db"].IsEnabled() || !got.Components["web"].IsEnabled() {
		t.Error("db must be off and web on")
	}
}

func TestSiteCheck(t *testing.T) {
	rel, err := ParseRelease("release.yaml", readTestdata(t, "release.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const begin = "apiVersion: waybill/v1\nkind: Site\n"
	tests := []struct {
		name, text string
		want       []Problem
	}{
		{"all well", siteText, nil},
		{"another release", begin + "release: other\n", []Problem{{3, 1, "release", `the site file is for release "other", this is "shop"`}}},
		{"unknown component", begin + "components:\n  amdin: {}\n", []Problem{{4, 3, "components.amdin", `the release has no component "amdin"; did you mean "admin"?`}}},
		{"unknown profile", begin + "components:\n  web: {profile: small}\n  db: {profile: ha}\n", []Problem{
			{4, 9, "components.web.profile", `component web has no profile "small"; there are ha`},
			{5, 8, "components.db.profile", `component db has no profile "ha"; there are none`},
		}},
		{"bad expression", begin + "verify: {identities: [{issuer: i, subjectRegexp: '('}]}\n", []Problem{
			{3, 35, "verify.identities[0].subjectRegexp", "error parsing regexp: missing closing ): `(`"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			site, err := ParseSite("site.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, site.Check(rel)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckParameters(t *testing.T) {
	const schema = "  parameters: {schema: {properties: {replicas: {type: integer}, auth: {properties: {user: {}}}, free: {type: object}, open: {additionalProperties: {type: string}}}, patternProperties: {'^ext-': {}}}}\n"
	c := mustRelease(t, head+component+schema).Components[0]
	tests := []struct {
		name   string
		values map[string]any
		want   []Problem
	}{
		{"allowed", map[string]any{"replicas": json.Number("3"), "auth": map[string]any{"user": "u"}, "free": map[string]any{"x": 1.0}, "ext-a": "y", "open": map[string]any{"k": "v"}}, nil},
		{"locked", map[string]any{"image": "x", "auth": map[string]any{"token": "t"}}, []Problem{
			{Path: "auth.token", Message: "the release locks it: its parameters do not name it"},
			{Path: "image", Message: "the release locks it: its parameters do not name it"},
		}},
		{"wrong type", map[string]any{"replicas": "three"}, []Problem{{Path: "replicas", Message: "got string, want integer"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.CheckParameters(tt.values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	free := Component{Name: "free"}
	if got, err := free.CheckParameters(map[string]any{"a": "b"}); got != nil || err != nil {
		t.Errorf("a component without parameters answers %v, %v", got, err)
	}
}
