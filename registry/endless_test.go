package registry_test

import (
	"net/http"
	"strings"
	"testing"

	"waybill/internal/registrytest"
)

// A list whose pages lead back to themselves is given up, soon.
func TestListsThatDoNotEnd(t *testing.T) {
	fault := func(r *http.Request) *registrytest.Fault {
		link := http.Header{"Link": {"<" + r.URL.Path + "?last=a&n=100>; rel=\"next\""}, "Content-Type": {"application/json"}}
		switch {
		case strings.HasSuffix(r.URL.Path, "/tags/list"):
			return &registrytest.Fault{Status: 200, Header: link, Body: `{"name":"shop","tags":["a"]}`}
		case strings.Contains(r.URL.Path, "/referrers/"):
			link.Set("Content-Type", "application/vnd.oci.image.index.v1+json")
			return &registrytest.Fault{Status: 200, Header: link, Body: `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`}
		}
		return nil
	}
	reg, _, at := served(t, registrytest.Options{Fault: fault})
	c := client(t, quick())
	if _, err := c.List(t.Context(), location(t, strings.TrimSuffix(at, ":1.0.0"))); err == nil || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("tags: %v", err)
	}
	if n := len(reg.Requests()); n > 40 {
		t.Errorf("%d requests for a list of tags", n)
	}
	reg.Forget()
	src := open(t, c, at)
	if _, err := src.Predecessors(t.Context(), src.Root); err == nil {
		t.Error("referrers: no error")
	}
	if n := len(reg.Requests()); n > 250 {
		t.Errorf("%d requests for referrers", n)
	}
}
