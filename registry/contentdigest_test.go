package registry_test

import (
	"bytes"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"waybill/internal/registrytest"
)

const otherDigest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"

// A registry, or a proxy before it, that says another digest in its header, or none,
// whatever it is asked: what is asked for by its digest is hashed, and what was pushed
// is looked at.
func TestWrongDigestInHeader(t *testing.T) {
	for name, header := range map[string]http.Header{
		"another": {"Docker-Content-Digest": {otherDigest}},
		"no":      {"Docker-Content-Digest": nil},
		"none":    {"Docker-Content-Digest": {"none"}},
	} {
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
				byDigest := strings.HasPrefix(path.Base(r.URL.Path), "sha256:")
				if byDigest || r.Method == http.MethodPut { // of a tag the header is part of what is said
					return &registrytest.Fault{Header: header}
				}
				return nil
			}})
			c, s := client(t, quick()), newSample(t, "one")
			store(t, c, "oci://"+reg.Host+"/shop", "1.0.0", s)
			contractContent(t, open(t, c, "oci://"+reg.Host+"/shop:1.0.0"), s)
			contractContent(t, open(t, c, "oci://"+reg.Host+"/shop@"+s.root.desc.Digest.String()), s)
		})
	}
}

// A registry that took a manifest as another one is told.
func TestManifestTakenAsAnother(t *testing.T) {
	s := newSample(t, "one")
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		switch {
		case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/1.0.0"):
			return &registrytest.Fault{Header: http.Header{"Docker-Content-Digest": {otherDigest}}}
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/manifests/1.0.0"):
			return &registrytest.Fault{Edit: func(data []byte) []byte { return append(data, '\n') }, Header: http.Header{"Docker-Content-Digest": nil}}
		}
		return nil
	}})
	dst, err := client(t, quick()).Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.all {
		if err := dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)); err != nil {
			t.Fatal(err)
		}
	}
	err = dst.Tag(t.Context(), s.root.desc, "1.0.0")
	wantContentError(t, err, s.root)
	if !strings.Contains(err.Error(), "in its place") {
		t.Errorf("got %v", err)
	}
}

// Small answers that are cut off, or stand still, are asked for again.
func TestCutOffAnswersAreAskedForAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		suffix string
		fault  registrytest.Fault
	}{
		"a list of tags":                    {"/tags/list", registrytest.Fault{Cut: 5}},
		"a list of tags that stands still":  {"/tags/list", registrytest.Fault{Stall: 5}},
		"a list of referrers":               {"/referrers/", registrytest.Fault{Cut: 30}},
		"a list of referrers, its headers":  {"/referrers/", registrytest.Fault{CutHead: 40}},
		"a list of referrers, standing":     {"/referrers/", registrytest.Fault{Stall: 30}},
		"there is no endpoint, said once":   {"/referrers/", registrytest.Fault{Status: http.StatusNotFound}},
		"a manifest, and its digest is not": {"/manifests/sha256:", registrytest.Fault{Cut: 30}},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			reg, s, at := served(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, tc.suffix) && n.Add(1) == 1 {
					return &tc.fault
				}
				return nil
			}})
			n.Store(0)
			c := client(t, quick())
			src := open(t, c, at)
			found, undetermined, err := src.Attached(t.Context(), s.root.desc)
			if err != nil || len(undetermined) > 0 || len(found) != 2 {
				t.Errorf("found %v, %v, %v", found, undetermined, err)
			}
			if tags, err := c.List(t.Context(), location(t, "oci://"+reg.Host+"/shop")); err != nil || strings.Join(tags, " ") != "1.0.0" {
				t.Errorf("tags %v, %v", tags, err)
			}
			if err := fetch(t.Context(), src, s.chart); err != nil {
				t.Error(err)
			}
			if n.Load() < 2 {
				t.Errorf("asked %d times", n.Load())
			}
		})
	}
}
