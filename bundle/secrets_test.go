package bundle

import (
	"strings"
	"testing"
)

func TestLoginIn(t *testing.T) {
	tests := []struct{ address, want string }{
		{"https://charts.example.com/stable", ""},
		{"oci://registry.example:5000/charts", ""},
		{"ssh://git@git.example.com/shop.git", ""},
		{"git@git.example.com:shop/shop.git", ""},
		{"../repos/shop.git", ""},
		{"https://charts.example.com/a@b", ""},
		{"https://charts.example.com/a?ref=main", "a query, where tokens stand"},
		{"https://me:hunter2@charts.example.com/", "a password"},
		{"https://me:hunt%er2@charts.example.com/", "a password"},
		{"https://me:hun@ter2@charts.example.com/", "a password"},
		{"oci://me:hunter2@registry.example/charts", "a password"},
		{"ssh://git:hunter2@git.example.com/shop.git", "a password"},
		{"https://ghp_token@git.example.com/shop.git", "a user name or token"},
		{"https://charts.example.com/?access_token=hunter2", "a query, where tokens stand"},
	}
	for _, tt := range tests {
		if got := loginIn(tt.address); got != tt.want {
			t.Errorf("login in %q is %q, want %q", tt.address, got, tt.want)
		}
	}
}

// A login in an address is refused wherever it stands, and never said.
func TestCheckRefusesLogins(t *testing.T) {
	rel := mustRelease(t, `apiVersion: waybill/v1
kind: Release
name: shop
version: 1.0.0
components:
  - name: web
    chart: {repository: "https://me:hunter2@charts.example.com", name: web, version: 1.0.0}
    namespace: shop
  - name: db
    chart: {git: "https://hunter2@git.example.com/db.git", ref: main, path: .}
    namespace: shop
artifact: oci://me:hunter2@registry.example/shop@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
`)
	problems := rel.Check()
	text := listProblems("release.yaml", problems)
	for _, want := range []string{"release.yaml:7:13: components[0].chart.repository: the address holds a password", "release.yaml:10:13: components[1].chart.git: the address holds a user name or token", "release.yaml:12:1: artifact: the address holds a password"} {
		if !strings.Contains(text, want) {
			t.Errorf("no problem %q in:\n%s", want, text)
		}
	}
	if len(problems) != 3 || strings.Contains(text, "hunter2") {
		t.Errorf("problems are:\n%s", text)
	}
}

// What does not fit the schema is quoted without a login in it.
func TestParseErrorsHideLogins(t *testing.T) {
	for name, chart := range map[string]string{
		"a repository of another kind": `{repository: "ftp://me:hunter2@charts.example.com", name: web, version: 1.0.0}`,
		"an address for a list":        `{manifests: "https://me:hunter2@charts.example.com"}`,
	} {
		_, err := ParseRelease("release.yaml", []byte("apiVersion: waybill/v1\nkind: Release\nname: shop\ncomponents:\n  - name: web\n    namespace: shop\n    chart: "+chart+"\n"))
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "…@charts.example.com") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
