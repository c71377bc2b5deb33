package charts

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: "
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {level: "
	const same = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: same}\n"
	p := &Preview{
		Previous: "---\n" + secret + "marker-old}\n---\n" + config + "low}\n" + same,
		Rendered: &Rendered{Manifest: "---\n" + secret + "marker-new}\n---\n" + config + "high}\n" + same},
	}
	got, err := p.Diff("salt")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-data: {level: low}", "+data: {level: high}", "deployed Secret s", "-  password: masked ("} {
		if !strings.Contains(got, want) {
			t.Errorf("the diff lacks %q:\n%s", want, got)
		}
	}
	for _, unwanted := range []string{"marker", "same"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("the diff has %q:\n%s", unwanted, got)
		}
	}
	p.Rendered.Manifest = p.Previous
	if got, err := p.Diff("salt"); err != nil || got != "" {
		t.Errorf("nothing changed, and the diff is %q, %v", got, err)
	}
}
