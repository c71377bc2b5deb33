package rollout

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
)

// replacing is a request for a bundle whose nginx has that digest, at a site
// with a hotfix for it.
func replacing(version string, vendor digest.Digest) Request {
	hotfix := bundle.ReplaceImage{Name: "nginx:1.27", NewName: "site.example/fix/nginx", Digest: digestC, Reason: "CVE-2026-1234"}
	req := withSite(request(version, part("web")), bundle.Site{Site: "berlin-1", Images: &bundle.SiteImages{Replace: []bundle.ReplaceImage{hotfix}}})
	req.Source.Lock.Packed = bundle.PackedImages
	if vendor != "" {
		req.Source.Lock.Images = []bundle.LockedImage{{Digest: vendor, References: []string{"docker.io/library/nginx:1.27"}, Components: []string{"web"}}}
	}
	req.Images = Images{Repository: "site.example/shop", Replace: []bundle.ReplaceImage{hotfix}}
	return req
}

// A replacement is used, recorded and told until the vendor's image is another
// one, and used again when that comes back.
func TestReplacementEndsWithTheVendorsImage(t *testing.T) {
	w := newWorld(t)
	located := ""
	steps := []struct {
		version string
		vendor  digest.Digest
		ended   bool
		says    []string
	}{
		{"1.0.0", digestA, false, nil},
		{"1.0.1", digestA, false, nil},
		{"1.1.0", digestB, true, []string{digestA.String(), digestB.String(), digestC.String(), "CVE-2026-1234"}},
		{"1.1.1", digestB, true, []string{"has ended"}},
		{"1.2.0", "", true, []string{"no longer has the image"}},
		{"1.3.0", digestA, false, nil},
	}
	for _, step := range steps {
		req := replacing(step.version, step.vendor)
		plan, err := w.runner.Plan(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Replaced) != 1 || plan.Replaced[0].Ended != step.ended {
			t.Fatalf("%s: the plan has %+v", step.version, plan.Replaced)
		}
		out := w.mustInstall(req)
		warned := strings.Join(out.Warnings, "\n")
		if (warned != "") != step.ended {
			t.Errorf("%s: warnings %q", step.version, warned)
		}
		for _, text := range step.says {
			if !strings.Contains(warned, text) {
				t.Errorf("%s: the warning lacks %q: %s", step.version, text, warned)
			}
		}
		status, err := w.runner.Status(t.Context(), "shop")
		if err != nil || len(status.Replaced) != 1 || status.Replaced[0] != plan.Replaced[0] || status.Replaced[0].Vendor != digestA {
			t.Errorf("%s: the status has %+v (%v)", step.version, status.Replaced, err)
		}
		composed, err := Compose(t.Context(), req, w.runner)
		if err != nil {
			t.Fatal(err)
		}
		located, _ = composed[0].Locate("docker.io/library/nginx:1.27")
		if got := strings.HasSuffix(located, digestC.String()); got == step.ended {
			t.Errorf("%s: it leads to %q", step.version, located)
		}
	}
}

func TestReplacementThatTheRegistryLacksIsRefused(t *testing.T) {
	w := newWorld(t)
	req := replacing("1.0.0", digestA)
	lacking := fakeMissing{"site.example/fix/nginx@" + digestC.String()}
	req.Images.Missing = lacking.missing
	_, err := w.install(req)
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "site.example/fix/nginx@"+digestC.String()) {
		t.Errorf("error is %v", err)
	}
}

func TestReplacementIsNotUsedOfKeptImages(t *testing.T) {
	w := newWorld(t)
	req := replacing("1.0.0", digestA)
	req.Images = Images{}
	plan, err := w.runner.Plan(t.Context(), req)
	if err != nil || !slices.ContainsFunc(plan.Warnings, func(w string) bool { return strings.Contains(w, "images.replace is not used") }) {
		t.Errorf("warnings %q, error %v", plan.Warnings, err)
	}
}
