package registry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// serve starts a server over a location and gives its host.
func serve(t testing.TB, at string, opts registry.ServerOptions) (*registry.Server, *registrytest.Server) {
	t.Helper()
	s, err := registry.NewServer(location(t, at), opts)
	if err != nil {
		t.Fatal(err)
	}
	reg := registrytest.New(t, registrytest.Options{Handler: s})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, reg
}

// A served folder is a registry as good as any.
func TestServeContract(t *testing.T) {
	for _, noReferrers := range []bool{false, true} {
		s, err := registry.NewServer(location(t, "oci-layout:"+filepath.Join(t.TempDir(), "new")), registry.ServerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		opts := registrytest.Options{Handler: s}
		if noReferrers { // and a client that keeps the list of referrers at a tag
			opts.Fault = faultAt("/referrers/", &registrytest.Fault{Status: http.StatusNotFound})
		}
		reg := registrytest.New(t, opts)
		contract(t, place{"served layout", "oci://" + reg.Host + "/team/shop", ":", reg})
	}
}

// What a folder or an archive holds is served under repository and tag, with
// everything that hangs on it; a served folder is a layout again.
func TestServeWhatIsThere(t *testing.T) {
	for _, kind := range []string{"layout", "saved.tar"} {
		t.Run(kind, func(t *testing.T) {
			c, s, at := client(t, quick()), newSample(t, "one"), filepath.Join(t.TempDir(), kind)
			store(t, c, at, "team/shop:1.0.0", s)
			server, reg := serve(t, at, registry.ServerOptions{})
			src := open(t, c, "oci://"+reg.Host+"/team/shop:1.0.0")
			contractContent(t, src, s)
			contractAttachments(t, src, s)
			var tags []string
			if err := src.Tags(t.Context(), func(page []string) error { tags = append(tags, page...); return nil }); err != nil {
				t.Fatal(err)
			}
			want := []string{"1.0.0", s.signatureTag()}
			if slices.Sort(want); !slices.Equal(tags, want) {
				t.Errorf("tags are %v, want %v", tags, want)
			}
			served, clashes, err := server.Tags()
			if err != nil || len(clashes) != 0 || len(served) != 1 || served[0].Repository != "team/shop" || served[0].Tag != "1.0.0" || served[0].Descriptor.Digest != s.root.desc.Digest {
				t.Errorf("serves %v, %v, %v", served, clashes, err)
			}
		})
	}
}

// An archive is served without being changed: everything that writes is refused.
func TestServeArchiveReadOnly(t *testing.T) {
	c, s, at := client(t, quick()), newSample(t, "one"), filepath.Join(t.TempDir(), "saved.tar")
	store(t, c, at, "shop-1.0.0", s)
	before, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	server, reg := serve(t, at, registry.ServerOptions{})
	if !server.ReadOnly() {
		t.Error("the archive is said to be writable")
	}
	for _, req := range [][2]string{
		{"POST", "/v2/saved/blobs/uploads/"}, {"PUT", "/v2/saved/manifests/2.0.0"}, {"DELETE", "/v2/saved/manifests/shop-1.0.0"},
		{"PATCH", "/v2/saved/blobs/uploads/x"}, {"DELETE", "/v2/saved/blobs/" + s.chart.desc.Digest.String()},
	} {
		if resp := ask(t, req[0], reg.URL+req[1], nil, nil); resp.status != http.StatusMethodNotAllowed || !strings.Contains(string(resp.body), "UNSUPPORTED") {
			t.Errorf("%s %s: %d %s", req[0], req[1], resp.status, resp.body)
		}
	}
	if after, err := os.ReadFile(at); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the archive was changed: %v", err)
	}
}

// The name in index.json gives repository and tag.
func TestServeNames(t *testing.T) {
	titled := func(title, version string) piece {
		return manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{},
			Annotations: map[string]string{ocispec.AnnotationTitle: title, ocispec.AnnotationVersion: version},
		})
	}
	plain := manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{},
	})
	tests := map[string]struct {
		name string
		root piece
		want string // empty: no tag
	}{
		"a release":                       {"shop-1.0.0", titled("shop", "1.0.0"), "shop:1.0.0"},
		"a release with build metadata":   {"shop-1.0.0+b.7", titled("shop", "1.0.0+b.7"), "shop:1.0.0_b.7"},
		"a release under another name":    {"stable", titled("shop", "1.0.0"), "shop:stable"},
		"repository and tag":              {"team/app:1.0", plain, "team/app:1.0"},
		"repository and tag win":          {"team/app:1.0", titled("shop", "1.0.0"), "team/app:1.0"},
		"a whole reference":               {"localhost:5000/team/app:1.0", plain, "localhost_5000/team/app:1.0"},
		"a tag alone":                     {"1.0", plain, "my-mirror:1.0"},
		"a title that is no repository":   {"1.0", titled("My Shop!", "1.0"), "my-mirror:1.0"},
		"a repository and no tag":         {"team/app", plain, ""},
		"what can be neither":             {"Team//App:1.0", plain, ""},
		"a name that climbs":              {"../../etc:passwd", plain, ""},
		"a name that is no tag and title": {"1.0+b", titled("shop", "2"), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "My Mirror")
			writeLayout(t, at, entryOf(tt.root, tt.name), tt.root)
			server, _ := serve(t, at, registry.ServerOptions{})
			served, _, err := server.Tags()
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, s := range served {
				got += s.Repository + ":" + s.Tag
			}
			if got != tt.want {
				t.Errorf("served as %q, want %q", got, tt.want)
			}
		})
	}
}

// A version whose name moved has the tag no more, though it says so itself.
func TestServeNamedFirst(t *testing.T) {
	at := filepath.Join(t.TempDir(), "mirror")
	titled := func(note string) piece {
		return manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{},
			Annotations: map[string]string{ocispec.AnnotationTitle: "shop", ocispec.AnnotationVersion: "1.0.0", "note": note},
		})
	}
	before, now := titled("before"), titled("now")
	writeLayout(t, at, []ocispec.Descriptor{entryOf(before, "")[0], entryOf(now, "shop-1.0.0")[0]}, before, now)
	server, _ := serve(t, at, registry.ServerOptions{})
	served, clashes, err := server.Tags()
	if err != nil || len(served) != 1 || served[0].Descriptor.Digest != now.desc.Digest {
		t.Errorf("serves %v, %v", served, err)
	}
	if len(clashes) != 1 || clashes[0].Digest != before.desc.Digest {
		t.Errorf("clashes are %v", clashes)
	}
}

// Two entries that would have one tag are both there, and said.
func TestServeClash(t *testing.T) {
	at := filepath.Join(t.TempDir(), "mirror")
	one, two := blobIndex(t, "one"), blobIndex(t, "two")
	writeLayout(t, at, []ocispec.Descriptor{entryOf(one, "mirror:1.0")[0], entryOf(two, "1.0")[0]}, one, two)
	server, reg := serve(t, at, registry.ServerOptions{})
	_, clashes, err := server.Tags()
	if err != nil || len(clashes) != 1 || clashes[0].Repository != "mirror" || clashes[0].Tag != "1.0" {
		t.Fatalf("clashes are %v, %v", clashes, err)
	}
	for _, p := range []piece{one, two} {
		if resp := ask(t, "GET", reg.URL+"/v2/mirror/manifests/"+p.desc.Digest.String(), nil, nil); resp.status != 200 || !bytes.Equal(resp.body, p.data) {
			t.Errorf("%s: %d", p.desc.Digest, resp.status)
		}
	}
	// A push to the tag takes it from both.
	three := blobIndex(t, "three")
	put(t, reg, "mirror", "1.0", three)
	served, clashes, err := server.Tags()
	if err != nil || len(clashes) != 0 || len(served) != 1 || served[0].Descriptor.Digest != three.desc.Digest {
		t.Errorf("after a push: %v, %v, %v", served, clashes, err)
	}
}

func blobIndex(t testing.TB, salt string) piece {
	return manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{},
		Annotations: map[string]string{"salt": salt},
	})
}

func entryOf(p piece, name string) []ocispec.Descriptor {
	desc := p.desc
	desc.Annotations = map[string]string{ocispec.AnnotationRefName: name}
	return []ocispec.Descriptor{desc}
}

// writeLayout writes a layout as some other tool would.
func writeLayout(t testing.TB, at string, entries []ocispec.Descriptor, pieces ...piece) {
	t.Helper()
	dir := filepath.Join(at, "blobs", "sha256")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	index, err := json.Marshal(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: entries})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{filepath.Join(at, "oci-layout"): []byte(`{"imageLayoutVersion":"1.0.0"}`), filepath.Join(at, "index.json"): index}
	for _, p := range pieces {
		files[filepath.Join(dir, p.desc.Digest.Encoded())] = p.data
	}
	for path, data := range files {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

func ask(t testing.TB, method, url string, header map[string]string, body []byte) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, data}
}

func put(t testing.TB, reg *registrytest.Server, repository, reference string, p piece) {
	t.Helper()
	resp := ask(t, "PUT", reg.URL+"/v2/"+repository+"/manifests/"+reference, map[string]string{"Content-Type": p.desc.MediaType}, p.data)
	if resp.status != http.StatusCreated {
		t.Fatalf("pushing %s: %d %s", p.desc.Digest, resp.status, resp.body)
	}
}

// Blobs come in any part, as registries give them.
func TestServeRanges(t *testing.T) {
	for _, kind := range []string{"layout", "saved.tar"} {
		c, s, at := client(t, quick()), newSample(t, "one"), filepath.Join(t.TempDir(), kind)
		store(t, c, at, "shop-1.0.0", s)
		_, reg := serve(t, at, registry.ServerOptions{})
		url, data := reg.URL+"/v2/any/blobs/"+s.imageLayer.desc.Digest.String(), s.imageLayer.data
		size := len(data)
		for header, want := range map[string][]byte{
			"bytes=0-9": data[:10], "bytes=10-": data[10:], "bytes=-5": data[size-5:], fmt.Sprintf("bytes=%d-%d", size-1, size+5): data[size-1:],
		} {
			resp := ask(t, "GET", url, map[string]string{"Range": header}, nil)
			if resp.status != http.StatusPartialContent || !bytes.Equal(resp.body, want) || resp.header.Get("Docker-Content-Digest") != s.imageLayer.desc.Digest.String() {
				t.Errorf("%s %s: %d, %d bytes", kind, header, resp.status, len(resp.body))
			}
		}
		if resp := ask(t, "GET", url, map[string]string{"Range": fmt.Sprintf("bytes=%d-", size)}, nil); resp.status != http.StatusRequestedRangeNotSatisfiable {
			t.Errorf("%s: a range after the end: %d", kind, resp.status)
		}
		if resp := ask(t, "HEAD", url, nil, nil); resp.status != 200 || resp.header.Get("Content-Length") != fmt.Sprint(size) {
			t.Errorf("%s HEAD: %d %v", kind, resp.status, resp.header)
		}
	}
}

// Uploads go in pieces, are gone on with where they stand, and can be cancelled;
// what is not what its digest says is not there.
func TestServeUploads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mirror")
	_, reg := serve(t, dir, registry.ServerOptions{})
	data := []byte(strings.Repeat("0123456789", 100))
	d := digest.FromBytes(data)
	begin := func() string {
		resp := ask(t, "POST", reg.URL+"/v2/team/app/blobs/uploads/", nil, nil)
		if resp.status != http.StatusAccepted {
			t.Fatalf("beginning: %d %s", resp.status, resp.body)
		}
		return reg.URL + resp.header.Get("Location")
	}
	patch := func(url string, from, to int) reply {
		return ask(t, "PATCH", url, map[string]string{"Content-Range": fmt.Sprintf("%d-%d", from, to-1), "Content-Type": "application/octet-stream"}, data[from:to])
	}
	at := begin()
	if resp := patch(at, 0, 400); resp.status != http.StatusAccepted || resp.header.Get("Range") != "0-399" {
		t.Fatalf("the first chunk: %d %s", resp.status, resp.header.Get("Range"))
	}
	if resp := patch(at, 500, 600); resp.status != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a chunk with a hole before it: %d", resp.status)
	}
	if resp := ask(t, "GET", at, nil, nil); resp.status != http.StatusNoContent || resp.header.Get("Range") != "0-399" {
		t.Errorf("asked how far it is: %d %s", resp.status, resp.header.Get("Range"))
	}
	if resp := patch(at, 400, 900); resp.status != http.StatusAccepted {
		t.Errorf("the second chunk: %d %s", resp.status, resp.body)
	}
	resp := ask(t, "PUT", at+"?digest="+d.String(), map[string]string{"Content-Range": "900-999"}, data[900:])
	if resp.status != http.StatusCreated {
		t.Fatalf("the end: %d %s", resp.status, resp.body)
	}
	blobURL := reg.URL + "/v2/team/app/blobs/" + d.String()
	if resp := ask(t, "GET", blobURL, nil, nil); !bytes.Equal(resp.body, data) {
		t.Errorf("came back as %d bytes", len(resp.body))
	}

	wrong := digest.FromString("wrong")
	at = begin()
	if resp := ask(t, "PUT", at+"?digest="+wrong.String(), nil, data); resp.status != http.StatusBadRequest || !strings.Contains(string(resp.body), "DIGEST_INVALID") {
		t.Errorf("the wrong digest: %d %s", resp.status, resp.body)
	}
	if resp := ask(t, "HEAD", reg.URL+"/v2/team/app/blobs/"+wrong.String(), nil, nil); resp.status != http.StatusNotFound {
		t.Errorf("the wrong bytes are there: %d", resp.status)
	}
	at = begin()
	if resp := ask(t, "DELETE", at, nil, nil); resp.status != http.StatusNoContent {
		t.Errorf("cancelling: %d %s", resp.status, resp.body)
	}
	if resp := patch(at, 0, 10); resp.status != http.StatusNotFound {
		t.Errorf("going on with a cancelled one: %d", resp.status)
	}
	if resp := ask(t, "PUT", begin()+"?digest="+d.String(), map[string]string{"Content-Range": "900-999"}, data[900:]); resp.status != http.StatusRequestedRangeNotSatisfiable || resp.header.Get("Location") == "" {
		t.Errorf("an end without a beginning: %d", resp.status)
	} else if resp := ask(t, "DELETE", reg.URL+resp.header.Get("Location"), nil, nil); resp.status != http.StatusNoContent {
		t.Errorf("cancelling that: %d", resp.status)
	}
	long := digest.SHA512.FromBytes(data)
	if resp := ask(t, "POST", reg.URL+"/v2/team/app/blobs/uploads/?digest="+long.String(), nil, data); resp.status != http.StatusCreated {
		t.Errorf("at once, by sha512: %d %s", resp.status, resp.body)
	}
	if resp := ask(t, "POST", reg.URL+"/v2/other/blobs/uploads/?mount="+d.String()+"&from=team/app", nil, nil); resp.status != http.StatusCreated {
		t.Errorf("mounting: %d", resp.status)
	}
	if resp := ask(t, "POST", reg.URL+"/v2/other/blobs/uploads/?mount="+wrong.String()+"&from=team/app", nil, nil); resp.status != http.StatusAccepted || resp.header.Get("Location") == "" {
		t.Errorf("mounting what isn't there: %d", resp.status)
	} else if resp := ask(t, "DELETE", reg.URL+resp.header.Get("Location"), nil, nil); resp.status != http.StatusNoContent {
		t.Errorf("cancelling the offered upload: %d", resp.status)
	}
	index := blobIndex(t, "x")
	index.desc.Digest = digest.SHA512.FromBytes(index.data)
	put(t, reg, "other", index.desc.Digest.String(), index)
	if resp := ask(t, "GET", reg.URL+"/v2/other/manifests/"+index.desc.Digest.String(), nil, nil); resp.status != 200 || !bytes.Equal(resp.body, index.data) {
		t.Errorf("a manifest by sha512: %d", resp.status)
	}
	leftOver(t, dir)
}

// leftOver fails for files that are not whole, once all uploads are over.
func leftOver(t testing.TB, dir string) {
	t.Helper()
	if found, err := filepath.Glob(filepath.Join(dir, ".tmp-*")); err != nil || len(found) != 0 {
		t.Errorf("left over: %v, %v", found, err)
	}
}

// What is no manifest, or not whole, is refused; nothing leads out of the folder.
func TestServeRefuses(t *testing.T) {
	dir := t.TempDir()
	_, reg := serve(t, filepath.Join(dir, "mirror"), registry.ServerOptions{})
	s := newSample(t, "one")
	for name, tc := range map[string]struct {
		method, path, mediaType string
		body                    []byte
		want                    int
	}{
		"parts missing":         {"PUT", "/v2/app/manifests/1", s.chart.desc.MediaType, s.chart.data, http.StatusNotFound},
		"no digest":             {"PUT", "/v2/app/manifests/sha256:abc", ocispec.MediaTypeImageIndex, blobIndex(t, "x").data, http.StatusBadRequest},
		"not JSON":              {"PUT", "/v2/app/manifests/1", ocispec.MediaTypeImageManifest, []byte("no"), http.StatusBadRequest},
		"another type":          {"PUT", "/v2/app/manifests/1", ocispec.MediaTypeImageManifest, blobIndex(t, "x").data, http.StatusBadRequest},
		"an unknown type":       {"PUT", "/v2/app/manifests/1", "application/json", blobIndex(t, "x").data, http.StatusBadRequest},
		"another digest":        {"PUT", "/v2/app/manifests/" + s.root.desc.Digest.String(), ocispec.MediaTypeImageIndex, blobIndex(t, "x").data, http.StatusBadRequest},
		"a large manifest":      {"PUT", "/v2/app/manifests/1", ocispec.MediaTypeImageManifest, bytes.Repeat([]byte(" "), 4<<20+1), http.StatusRequestEntityTooLarge},
		"a repository upwards":  {"POST", "/v2/../../app/blobs/uploads/", "", nil, http.StatusBadRequest},
		"a digest upwards":      {"GET", "/v2/app/blobs/sha256:..%2f..%2foci-layout", "", nil, http.StatusNotFound},
		"an upload upwards":     {"PATCH", "/v2/app/blobs/uploads/Li4vb2NpLWxheW91dA", "", []byte("x"), http.StatusNotFound},
		"an unknown repository": {"GET", "/v2/app/tags/list", "", nil, http.StatusNotFound},
		"an unknown tag":        {"GET", "/v2/app/manifests/1", "", nil, http.StatusNotFound},
		"deleting a blob":       {"DELETE", "/v2/app/blobs/" + s.root.desc.Digest.String(), "", nil, http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			resp := ask(t, tc.method, reg.URL+tc.path, map[string]string{"Content-Type": tc.mediaType}, tc.body)
			if resp.status != tc.want {
				t.Errorf("%d %s, want %d", resp.status, resp.body, tc.want)
			}
		})
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the folder there is %v, %v", entries, err)
	}
}

// Tags and manifests are deleted; what others need stays.
func TestServeDelete(t *testing.T) {
	c, s, dir := client(t, quick()), newSample(t, "one"), filepath.Join(t.TempDir(), "mirror")
	_, reg := serve(t, dir, registry.ServerOptions{})
	at := "oci://" + reg.Host + "/team/shop"
	store(t, c, at, "1.0.0", s)
	manifests := reg.URL + "/v2/team/shop/manifests/"
	del := func(reference string) int { return ask(t, "DELETE", manifests+reference, nil, nil).status }
	there := func(reference string) bool { return ask(t, "HEAD", manifests+reference, nil, nil).status == 200 }

	if got := del(s.chart.desc.Digest.String()); got != http.StatusAccepted || !there(s.chart.desc.Digest.String()) {
		t.Errorf("a child of an index that has a tag: %d, still there: %v", got, there(s.chart.desc.Digest.String()))
	}
	if got := del("1.0.0"); got != http.StatusAccepted || there("1.0.0") || !there(s.root.desc.Digest.String()) {
		t.Errorf("a tag: %d", got)
	}
	if got := del(s.root.desc.Digest.String()); got != http.StatusAccepted || there(s.root.desc.Digest.String()) {
		t.Errorf("the root: %d", got)
	}
	if got := del(s.referrer.desc.Digest.String()); got != http.StatusAccepted || there(s.referrer.desc.Digest.String()) {
		t.Errorf("what hung on it: %d", got)
	}
	if got := del("absent"); got != http.StatusNotFound {
		t.Errorf("what isn't there: %d", got)
	}
}

// Tag lists come in pages.
func TestServePages(t *testing.T) {
	_, reg := serve(t, filepath.Join(t.TempDir(), "mirror"), registry.ServerOptions{})
	var want []string
	for i := range 7 {
		tag := fmt.Sprintf("1.0.%d", i)
		put(t, reg, "team/app", tag, blobIndex(t, tag))
		want = append(want, tag)
	}
	var got []string
	for path, pages := "/v2/team/app/tags/list?n=3", 0; path != ""; pages++ {
		resp := ask(t, "GET", reg.URL+path, nil, nil)
		var page struct{ Tags []string }
		if got := resp.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("the list is said to be %q", got)
		}
		if err := json.Unmarshal(resp.body, &page); err != nil || len(page.Tags) > 3 || pages > 3 {
			t.Fatalf("%s: %s, %v", path, resp.body, err)
		}
		got = append(got, page.Tags...)
		path, _, _ = strings.Cut(strings.TrimPrefix(resp.header.Get("Link"), "<"), ">")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Many push at the same time, through the server and beside it, and nothing is lost.
func TestServeParallelPushes(t *testing.T) {
	c, dir := client(t, quick()), filepath.Join(t.TempDir(), "mirror")
	_, reg := serve(t, dir, registry.ServerOptions{})
	_, other := serve(t, dir, registry.ServerOptions{}) // another server of the same folder
	var wait sync.WaitGroup
	var want []string
	for i := range 12 {
		at, name := dir, fmt.Sprintf("v%d", i) // beside the servers, as a layout
		switch i % 3 {
		case 0:
			at = "oci://" + reg.Host + "/team/shop"
		case 1:
			at = "oci://" + other.Host + "/team/shop"
		default:
			name = "team/shop:" + name
		}
		want = append(want, fmt.Sprintf("v%d", i))
		wait.Go(func() { store(t, c, at, name, newSample(t, name)) })
	}
	wait.Wait()
	got, err := c.List(t.Context(), location(t, "oci://"+reg.Host+"/team/shop"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	leftOver(t, dir)
}

// What can't be served is said before anybody asks.
func TestNewServerRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"oci://registry.example/shop:1.0.0", dir, filepath.Join(dir, "absent.tar")} {
		_, err := registry.NewServer(location(t, at), registry.ServerOptions{})
		var wrong *registry.LocationError
		if !errors.As(err, &wrong) {
			t.Errorf("%s: %v", at, err)
		}
	}
}
