package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// cargo is a graph with everything that may hang on it: a sample, an image of two
// platforms written as no library would write it, signatures of both forms, an
// attestation, and an SBOM that is signed in its turn.
type cargo struct {
	root   piece
	pieces []piece          // in the order to push
	tags   map[string]piece // what hangs on a digest by tag
	hang   map[digest.Digest][]piece
}

const dockerList = "application/vnd.docker.distribution.manifest.list.v2+json"

func newCargo(t testing.TB, salt string) cargo {
	s := newSample(t, salt)
	empty, config := s.all[0], s.all[2]
	docker := blob("application/vnd.docker.container.image.v1+json", `{"os":"linux","salt":"`+salt+`"}`)
	raw := blob("application/vnd.docker.image.rootfs.diff.tar", "an uncompressed layer of "+salt)
	platform := func(arch string) piece {
		return piece0("application/vnd.docker.distribution.manifest.v2+json", fmt.Sprintf(
			"{\n   \"schemaVersion\": 2,\t\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\" ,\r\n \"config\":{\"size\":%d,\"digest\":%q,\"mediaType\":%q},\n\"layers\": [ {\"mediaType\":%q,\"size\":%d,\"digest\":%q} ],\"arch\":%q\n}\n\n",
			docker.desc.Size, docker.desc.Digest, docker.desc.MediaType, raw.desc.MediaType, raw.desc.Size, raw.desc.Digest, arch))
	}
	amd, arm := platform("amd64"), platform("arm64")
	list := piece0(dockerList, fmt.Sprintf(
		"{\"manifests\":[\n {\"digest\":%q,\"size\":%d,\"mediaType\":%q,\"platform\":{\"architecture\":\"amd64\",\"os\":\"linux\"}},\n {\"platform\":{\"os\":\"linux\",\"architecture\":\"arm64\"},\"mediaType\":%q,\"digest\":%q,\"size\":%d}],\n\n\"mediaType\":%q,\"schemaVersion\":2}",
		amd.desc.Digest, amd.desc.Size, amd.desc.MediaType, arm.desc.MediaType, arm.desc.Digest, arm.desc.Size, dockerList))
	root := manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{s.release.desc, s.chart.desc, s.image.desc, list.desc},
	})
	c := cargo{root: root, tags: map[string]piece{}, hang: map[digest.Digest][]piece{}}
	c.pieces = append(c.pieces, s.all[:9]...)
	c.pieces = append(c.pieces, docker, raw, amd, arm, list, root)
	byTag := func(of piece, suffix string, layers ...piece) piece {
		m := image(t, config, "", nil, layers...)
		c.pieces = append(append(c.pieces, layers...), m)
		c.tags[tagOf(of, suffix)] = m
		return m
	}
	refer := func(of piece, artifactType, what string) piece {
		proof := blob("application/vnd.example.proof", what+salt)
		m := image(t, empty, artifactType, &of.desc, proof)
		c.pieces = append(c.pieces, proof, m)
		c.hang[of.desc.Digest] = append(c.hang[of.desc.Digest], m)
		return m
	}
	byTag(root, ".sig", signedLayer("root of "+salt, "by one"))
	refer(root, "application/vnd.dev.sigstore.bundle.v0.3+json", "a signature of the root of ")
	byTag(s.chart, ".att", blob("application/vnd.dsse.envelope.v1+json", "an attestation of "+salt))
	byTag(list, ".sig", signedLayer("list of "+salt, "by one"))
	sbom := byTag(amd, ".sbom", blob("text/spdx+json", "an SBOM of "+salt))
	byTag(sbom, ".sig", signedLayer("SBOM of "+salt, "by one"))
	refer(sbom, "application/vnd.dev.sigstore.bundle.v0.3+json", "another signature of the SBOM of ")
	attestation := refer(arm, "application/vnd.example.attestation", "what arm is made of ")
	refer(attestation, "application/vnd.dev.sigstore.bundle.v0.3+json", "a signature of that ")
	return c
}

func piece0(mediaType, data string) piece {
	return piece{ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(data), Size: int64(len(data))}, []byte(data)}
}

func tagOf(p piece, suffix string) string {
	return strings.Replace(p.desc.Digest.String(), ":", "-", 1) + suffix
}

func signedLayer(what, signature string) piece {
	p := blob("application/vnd.dev.cosign.simplesigning.v1+json", "payload for "+what)
	p.desc.Annotations = map[string]string{"dev.cosignproject.cosign/signature": signature}
	return p
}

// lay writes all of it to a place.
func (c cargo) lay(t testing.TB, client *registry.Client, at, name string) {
	t.Helper()
	dst, err := client.Create(t.Context(), location(t, at))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.pieces {
		if err := dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)); err != nil {
			t.Fatalf("pushing %s: %v", p.desc.Digest, err)
		}
	}
	for tag, p := range c.tags {
		if err := dst.Tag(t.Context(), p.desc, tag); err != nil {
			t.Fatal(err)
		}
	}
	if err := dst.Tag(t.Context(), c.root.desc, name); err != nil {
		t.Fatal(err)
	}
	if err := dst.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// holds fails unless a place has every byte of it, and everything is found that
// hangs on something.
func (c cargo) holds(t testing.TB, client *registry.Client, at string) {
	t.Helper()
	src := open(t, client, at)
	if src.Root.Digest != c.root.desc.Digest {
		t.Errorf("%s is %s, want %s", at, src.Root.Digest, c.root.desc.Digest)
	}
	for _, p := range c.pieces {
		data, err := content.FetchAll(t.Context(), src, p.desc)
		if err != nil || !bytes.Equal(data, p.data) {
			t.Errorf("%s %s is not there byte for byte: %v", p.desc.MediaType, p.desc.Digest, err)
		}
	}
	for tag, p := range c.tags {
		if desc, err := src.Resolve(t.Context(), tag); err != nil || desc.Digest != p.desc.Digest {
			t.Errorf("tag %s names %s, %v, want %s", tag, desc.Digest, err, p.desc.Digest)
		}
	}
	for subject, all := range c.hang {
		found, err := src.Predecessors(t.Context(), c.find(subject))
		if err != nil || !slices.Equal(digestsOf(found), digestsOf(descriptors(all))) {
			t.Errorf("on %s hangs %v, %v, want %v", subject, digestsOf(found), err, digestsOf(descriptors(all)))
		}
		for _, desc := range found {
			if want := c.artifactType(desc.Digest); desc.ArtifactType != want {
				t.Errorf("%s is listed as %q, want %q", desc.Digest, desc.ArtifactType, want)
			}
		}
	}
}

func (c cargo) find(d digest.Digest) ocispec.Descriptor {
	for _, p := range c.pieces {
		if p.desc.Digest == d {
			return p.desc
		}
	}
	return ocispec.Descriptor{}
}

func (c cargo) artifactType(d digest.Digest) string {
	for _, p := range c.pieces {
		if p.desc.Digest == d {
			var m ocispec.Manifest
			_ = json.Unmarshal(p.data, &m)
			return m.ArtifactType
		}
	}
	return ""
}

func (c cargo) attachments() int {
	n := len(c.tags)
	for _, all := range c.hang {
		n += len(all)
	}
	return n
}

func descriptors(pieces []piece) []ocispec.Descriptor {
	var out []ocispec.Descriptor
	for _, p := range pieces {
		out = append(out, p.desc)
	}
	return out
}

// carry copies the root of one place to another, tags and commits.
func carry(ctx context.Context, client *registry.Client, from, to registry.Location, name string, opts registry.CopyOptions) (result registry.CopyResult, err error) {
	src, err := client.Open(ctx, from)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := client.Update(ctx, to)
	if err != nil {
		return result, err
	}
	result, err = registry.Copy(ctx, src, dst, []ocispec.Descriptor{src.Root}, opts)
	if err == nil {
		err = dst.Tag(ctx, src.Root, name)
	}
	if err != nil {
		return result, errors.Join(err, dst.Abort())
	}
	return result, dst.Commit(ctx)
}

// copyPlaces are a place of every kind.
func copyPlaces(t *testing.T) []place {
	all := places(t, registrytest.Options{})
	bare := places(t, registrytest.Options{NoReferrers: true})[0]
	bare.name = "registry without referrers"
	s, err := registry.NewServer(location(t, "oci-layout:"+filepath.Join(t.TempDir(), "served")), registry.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reg := registrytest.New(t, registrytest.Options{Handler: s})
	served := place{"served layout", "oci://" + reg.Host + "/team/shop", ":", reg}
	return append(all, bare, served)
}

// From every kind of place to every kind: the same digests, all that hangs on any
// of them, and nothing to do the second time.
func TestCopyPairings(t *testing.T) {
	c, cargo := client(t, quick()), newCargo(t, "one")
	for _, from := range copyPlaces(t) {
		cargo.lay(t, c, from.at, "1.0.0")
		for _, to := range copyPlaces(t) {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				copyThere(t, c, cargo, from, to)
			})
		}
	}
}

func copyThere(t *testing.T, c *registry.Client, cargo cargo, from, to place) {
	src, dst := location(t, from.at+from.tag+"1.0.0"), location(t, to.at)
	result, err := carry(t.Context(), c, src, dst, "2.0.0", registry.CopyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unique := map[digest.Digest]bool{}
	for _, p := range cargo.pieces {
		unique[p.desc.Digest] = true
	}
	if result.Copied.Objects != len(unique) || result.Skipped.Objects != 0 {
		t.Errorf("copied %d and skipped %d objects, want %d and 0", result.Copied.Objects, result.Skipped.Objects, len(unique))
	}
	if len(result.Attachments) != cargo.attachments() || len(result.Undetermined) != 0 {
		t.Errorf("%d attachments, %d undetermined, want %d and 0", len(result.Attachments), len(result.Undetermined), cargo.attachments())
	}
	cargo.holds(t, c, to.at+to.tag+"2.0.0")

	before := requestCount(to)
	again, err := carry(t.Context(), c, src, dst, "2.0.0", registry.CopyOptions{})
	if err != nil || again.Copied.Objects != 0 || again.Skipped.Objects != len(unique) {
		t.Errorf("the second time: copied %d, skipped %d, %v", again.Copied.Objects, again.Skipped.Objects, err)
	}
	for _, a := range again.Attachments {
		if a.State != registry.AttachmentThere {
			t.Errorf("the second time %s of %s is %s", a.Digest, a.Subject, a.State)
		}
	}
	if to.reg != nil {
		oneCheckEach(t, to.reg.Requests()[before:], unique)
	}
	cargo.holds(t, c, to.at+to.tag+"2.0.0")
}

func requestCount(p place) int {
	if p.reg == nil {
		return 0
	}
	return len(p.reg.Requests())
}

// oneCheckEach fails when an object was asked for more than once before
// something was read back, or was sent.
func oneCheckEach(t *testing.T, requests []registrytest.Request, all map[digest.Digest]bool) {
	t.Helper()
	asked := map[string]int{}
	for _, r := range requests {
		isManifest := strings.Contains(r.Path, "/manifests/")
		if r.Method == http.MethodGet && !isManifest && strings.Contains(r.Path, "/blobs/") {
			t.Errorf("read %s", r.Path)
		}
		if r.Method == http.MethodHead || r.Method == http.MethodGet && isManifest {
			asked[r.Path[strings.LastIndexByte(r.Path, '/')+1:]]++
		}
		if r.Method == http.MethodPost || r.Method == http.MethodPatch {
			t.Errorf("sent %s", r.Path)
		}
	}
	for d := range all {
		if asked[d.String()] != 1 {
			t.Errorf("asked %d times for %s", asked[d.String()], d)
		}
	}
}

// A target that has the index and lacks something below it is made whole.
func TestCopyHealsHalf(t *testing.T) {
	c, cargo := client(t, quick()), newCargo(t, "one")
	from := filepath.Join(t.TempDir(), "from.tar")
	cargo.lay(t, c, from, "1.0.0")
	for _, lost := range []string{"a layer", "a signature's payload"} {
		t.Run(lost, func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{})
			at := "oci://" + reg.Host + "/shop"
			if _, err := carry(t.Context(), c, location(t, from), location(t, at), "1.0.0", registry.CopyOptions{}); err != nil {
				t.Fatal(err)
			}
			d := newSample(t, "one").imageLayer.desc.Digest
			if lost != "a layer" {
				d = signedLayer("root of one", "").desc.Digest
			}
			if err := reg.RemoveBlob("shop", d); err != nil {
				t.Fatal(err)
			}
			result, err := carry(t.Context(), c, location(t, from), location(t, at), "1.0.0", registry.CopyOptions{})
			if err != nil || result.Copied.Objects != 1 {
				t.Errorf("copied %d, %v", result.Copied.Objects, err)
			}
			cargo.holds(t, c, at+":1.0.0")
		})
	}
}

// Signatures that are at the target stay, whoever made them.
func TestCopyUnitesSignatures(t *testing.T) {
	config := func(payloads ...piece) piece {
		var ids []string
		for _, p := range payloads {
			ids = append(ids, p.desc.Digest.String())
		}
		data, _ := json.Marshal(map[string]any{"os": "", "rootfs": map[string]any{"type": "layers", "diff_ids": ids}, "history": make([]struct{}, len(payloads))})
		return blob(ocispec.MediaTypeImageConfig, string(data))
	}
	s := newSample(t, "one")
	one, two, three := signedLayer("root", "by one"), signedLayer("root", "by two"), signedLayer("root", "by three")
	signed := func(layers ...piece) []piece {
		c := config(layers...)
		return append(append([]piece{c}, layers...), image(t, c, "", nil, layers...))
	}
	tests := map[string]struct {
		source, target []piece
		want           []string
		state          string
	}{
		"nothing there":         {signed(one), nil, []string{"by one"}, registry.AttachmentCopied},
		"the same":              {signed(one), signed(one), []string{"by one"}, registry.AttachmentThere},
		"more at the target":    {signed(one), signed(one, two), []string{"by one", "by two"}, registry.AttachmentThere},
		"more at the source":    {signed(one, two), signed(one), []string{"by one", "by two"}, registry.AttachmentUnited},
		"different ones":        {signed(two, one), signed(three, one), []string{"by three", "by one", "by two"}, registry.AttachmentUnited},
		"configs of other kind": {append(signed(one)[1:2], s.all[0], image(t, s.all[0], "", nil, one)), signed(two), []string{"by two", "by one"}, registry.AttachmentUnited},
	}
	for _, kind := range []string{"registry", "layout", "archive"} {
		for name, tt := range tests {
			t.Run(kind+": "+name, func(t *testing.T) {
				c := client(t, quick())
				var at place
				for _, p := range places(t, registrytest.Options{}) {
					if p.name == kind {
						at = p
					}
				}
				from := filepath.Join(t.TempDir(), "from")
				tag := s.signatureTag()
				lay := func(at string, signature []piece) {
					dst, err := c.Create(t.Context(), location(t, at))
					if err != nil {
						t.Fatal(err)
					}
					for _, p := range append(slices.Clone(s.all[:10]), signature...) {
						if err := dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)); err != nil {
							t.Fatal(err)
						}
					}
					if signature != nil {
						if err := dst.Tag(t.Context(), signature[len(signature)-1].desc, tag); err != nil {
							t.Fatal(err)
						}
					}
					if err := dst.Tag(t.Context(), s.root.desc, "1.0.0"); err != nil {
						t.Fatal(err)
					}
					if err := dst.Commit(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				lay(from, tt.source)
				lay(at.at, tt.target)
				result, err := carry(t.Context(), c, location(t, from+"#1.0.0"), location(t, at.at), "1.0.0", registry.CopyOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if len(result.Attachments) != 1 || result.Attachments[0].State != tt.state || !result.Attachments[0].IsSignature() {
					t.Errorf("attachments are %+v, want one %s", result.Attachments, tt.state)
				}
				src := open(t, c, at.at+at.tag+"1.0.0")
				if diff := cmp.Diff(tt.want, signatures(t, src, tag)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// signatures are those under a tag, read as a client would: with a config that
// counts them.
func signatures(t *testing.T, src *registry.Source, tag string) []string {
	t.Helper()
	desc, err := src.Resolve(t.Context(), tag)
	if err != nil {
		t.Fatal(err)
	}
	data, err := content.FetchAll(t.Context(), src, desc)
	if err != nil {
		t.Fatal(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, layer := range m.Layers {
		out = append(out, layer.Annotations["dev.cosignproject.cosign/signature"])
		if _, err := content.FetchAll(t.Context(), src, layer); err != nil {
			t.Error(err)
		}
	}
	raw, err := content.FetchAll(t.Context(), src, m.Config)
	if err != nil {
		t.Fatal(err)
	}
	var config ocispec.Image
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	if n := len(config.RootFS.DiffIDs); n != 0 && n != len(m.Layers) && out[0] != "by two" {
		t.Errorf("the config counts %d of %d layers", n, len(m.Layers))
	}
	return out
}

// Referrers that a tool listed with the wrong type, or without one, or that are
// at the target and not listed there, arrive and are listed with the true one.
func TestCopyWrongListOfReferrers(t *testing.T) {
	for _, wrong := range []string{"", ocispec.MediaTypeEmptyJSON, ocispec.MediaTypeImageConfig, "text/plain"} {
		for _, noAPI := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q, to a registry without API: %v", wrong, noAPI), func(t *testing.T) {
				c, s := client(t, quick()), newSample(t, "one")
				from := registrytest.New(t, registrytest.Options{NoReferrers: true})
				to := registrytest.New(t, registrytest.Options{NoReferrers: noAPI})
				at := "oci://" + from.Host + "/shop"
				store(t, c, at, "1.0.0", s)
				listed := s.referrer.desc
				listed.ArtifactType = wrong
				list := manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
					Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
					Manifests: []ocispec.Descriptor{listed, s.chart.desc}, // and what hangs on nothing
				})
				put(t, from, "shop", tagOf(s.root, ""), list)
				// At the target the manifest is there, and no list has it.
				for _, p := range []piece{s.all[0], s.proof} {
					resp := ask(t, "POST", to.URL+"/v2/shop/blobs/uploads/?digest="+p.desc.Digest.String(), map[string]string{"Content-Type": "application/octet-stream"}, p.data)
					if resp.status != http.StatusCreated {
						t.Fatalf("%d %s", resp.status, resp.body)
					}
				}
				put(t, to, "shop", s.referrer.desc.Digest.String(), s.referrer)

				target := "oci://" + to.Host + "/shop"
				result, err := carry(t.Context(), c, location(t, at+":1.0.0"), location(t, target), "1.0.0", registry.CopyOptions{})
				if err != nil || len(result.Attachments) != 2 {
					t.Fatalf("%+v, %v", result.Attachments, err)
				}
				contractAttachments(t, open(t, c, target+":1.0.0"), s)
			})
		}
	}
}

// A registry that denies look-ups for what isn't there keeps nobody from copying:
// each look-up is listed as not determined. 404 is an answer.
func TestCopyUndetermined(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			deny := false
			reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
				optional := strings.Contains(r.URL.Path, "/manifests/sha256-") && !strings.HasSuffix(r.URL.Path, ".sig") || strings.Contains(r.URL.Path, "/referrers/") || strings.HasSuffix(r.URL.Path, "/tags/list")
				if deny && optional {
					return &registrytest.Fault{Status: status}
				}
				return nil
			}})
			c, s := client(t, quick()), newSample(t, "one")
			at := "oci://" + reg.Host + "/shop"
			store(t, c, at, "1.0.0", s)
			deny = true
			to := filepath.Join(t.TempDir(), "to.tar")
			result, err := carry(t.Context(), c, location(t, at+":1.0.0"), location(t, to), "1.0.0", registry.CopyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var signatures int
			for _, a := range result.Attachments {
				if a.IsSignature() {
					signatures++
				}
			}
			if signatures != 1 {
				t.Errorf("%d signatures arrived, want 1", signatures)
			}
			if status == http.StatusNotFound {
				if len(result.Undetermined) != 0 {
					t.Errorf("404 is an answer: %+v", result.Undetermined)
				}
				return
			}
			// 5 manifests and the signature's own: referrers, list, .att, .sbom each.
			if len(result.Undetermined) != 5*4 {
				t.Errorf("%d look-ups are undetermined: %+v", len(result.Undetermined), result.Undetermined)
			}
			for _, u := range result.Undetermined {
				if u.Status != status || u.Subject == "" || u.Lookup == "" {
					t.Errorf("%+v", u)
				}
			}
		})
	}
}

// A registry without a list of tags still gives its signatures.
func TestCopyWithoutTagList(t *testing.T) {
	c, cargo := client(t, quick()), newCargo(t, "one")
	reg := registrytest.New(t, registrytest.Options{Fault: faultAt("/tags/list", &registrytest.Fault{Status: http.StatusForbidden})})
	at, to := "oci://"+reg.Host+"/shop", filepath.Join(t.TempDir(), "to")
	cargo.lay(t, c, at, "1.0.0")
	if _, err := carry(t.Context(), c, location(t, at+":1.0.0"), location(t, to), "1.0.0", registry.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	cargo.holds(t, c, to)
}

// A list of tags that is cut off without a word, or old, hides nothing.
func TestCopyTagListCutOff(t *testing.T) {
	for name, tags := range map[string][]string{"cut off": manyTags(100), "old": {"0.9.0"}, "old, with the tag": {"1.0.0"}} {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(map[string]any{"name": "shop", "tags": tags})
			if err != nil {
				t.Fatal(err)
			}
			c, cargo := client(t, quick()), wideCargo(t)
			reg := registrytest.New(t, registrytest.Options{Fault: faultAt("/tags/list", &registrytest.Fault{Status: 200, Body: string(body)})})
			at, to := "oci://"+reg.Host+"/shop", filepath.Join(t.TempDir(), "to")
			cargo.lay(t, c, at, "1.0.0")
			if _, err := carry(t.Context(), c, location(t, at+":1.0.0"), location(t, to), "1.0.0", registry.CopyOptions{}); err != nil {
				t.Fatal(err)
			}
			cargo.holds(t, c, to)
		})
	}
}

// A list of tags that is another one on its way, which no digest tells, hides
// nothing.
func TestCopyTagListChangedOnTheWay(t *testing.T) {
	c, cargo := client(t, quick()), wideCargo(t)
	var lists atomic.Int32
	fault := func(r *http.Request) *registrytest.Fault {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") || lists.Add(1) > 1 {
			return nil
		}
		tags := slices.AppendSeq([]string{"1.0.0"}, maps.Keys(cargo.tags))
		for i, tag := range tags {
			if i > 0 && tag != tagOf(cargo.root, ".sig") {
				tags[i] = strings.Replace(tag, "sha256-", "sha257-", 1)
				break
			}
		}
		body, err := json.Marshal(map[string]any{"name": "shop", "tags": tags})
		if err != nil {
			t.Error(err)
		}
		return &registrytest.Fault{Status: 200, Body: string(body)}
	}
	reg := registrytest.New(t, registrytest.Options{Fault: fault})
	at, to := "oci://"+reg.Host+"/shop", filepath.Join(t.TempDir(), "to")
	cargo.lay(t, c, at, "1.0.0")
	lists.Store(0)
	if _, err := carry(t.Context(), c, location(t, at+":1.0.0"), location(t, to), "1.0.0", registry.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	cargo.holds(t, c, to)
}

func manyTags(n int) []string {
	tags := []string{"1.0.0"}
	for i := range n - 1 {
		tags = append(tags, fmt.Sprintf("v%d", i))
	}
	return tags
}

// wideCargo has so many manifests that look-ups go by a list of tags where there
// is one to rely on: each is signed.
func wideCargo(t testing.TB) cargo {
	c := cargo{tags: map[string]piece{}, hang: map[digest.Digest][]piece{}}
	config := blob(ocispec.MediaTypeImageConfig, "{}")
	c.pieces = append(c.pieces, config)
	var children []ocispec.Descriptor
	sign := func(p piece) {
		layer := signedLayer(p.desc.Digest.String(), "by one")
		m := image(t, config, "", nil, layer)
		c.pieces = append(c.pieces, layer, m)
		c.tags[tagOf(p, ".sig")] = m
	}
	for i := range 12 {
		layer := blob(ocispec.MediaTypeImageLayer, fmt.Sprintf("layer %d", i))
		child := image(t, config, "", nil, layer)
		c.pieces = append(c.pieces, layer, child)
		children = append(children, child.desc)
		sign(child)
	}
	c.root = manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: children,
	})
	c.pieces = append(c.pieces, c.root)
	sign(c.root)
	return c
}

// With a list of tags, what hangs on many manifests is not asked for one by one.
func TestCopyLearnsFromTagList(t *testing.T) {
	c, cargo := client(t, quick()), wideCargo(t)
	reg := registrytest.New(t, registrytest.Options{})
	at, to := "oci://"+reg.Host+"/shop", filepath.Join(t.TempDir(), "to")
	cargo.lay(t, c, at, "1.0.0")
	reg.Forget()
	if _, err := carry(t.Context(), c, location(t, at+":1.0.0"), location(t, to), "1.0.0", registry.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	cargo.holds(t, c, to)
	var absent int
	for _, r := range reg.Requests() {
		if r.Status == http.StatusNotFound && strings.Contains(r.Path, "/manifests/sha256-") {
			absent++
		}
	}
	if most := 2 * 4; absent > most { // of the root, and of its signature
		t.Errorf("asked %d times for tags that are not there, want at most %d", absent, most)
	}
}

// In one registry blobs are taken over, and a refusal is met once.
func TestCopyMounts(t *testing.T) {
	for _, answer := range []int{http.StatusCreated, http.StatusAccepted, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError} {
		t.Run(http.StatusText(answer), func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
				if !r.URL.Query().Has("mount") || answer == http.StatusCreated {
					return nil
				}
				if answer == http.StatusAccepted { // as if there had been no wish to mount
					r.URL.RawQuery = ""
					return nil
				}
				return &registrytest.Fault{Status: answer}
			}})
			c, cargo := client(t, quick()), newCargo(t, "one")
			at, to := "oci://"+reg.Host+"/team/shop", "oci://"+reg.Host+"/mirror/shop"
			cargo.lay(t, c, at, "1.0.0")
			reg.Forget()
			result, err := carry(t.Context(), c, location(t, at+":1.0.0"), location(t, to), "1.0.0", registry.CopyOptions{Concurrency: 1})
			if err != nil {
				t.Fatal(err)
			}
			cargo.holds(t, c, to+":1.0.0")
			asked, begun := 0, 0
			for _, r := range reg.Requests() {
				if strings.Contains(r.Query, "mount=") {
					asked++
				}
				if r.Method == http.MethodPost {
					begun++
				}
			}
			if n := reg.Sessions(); n != 0 {
				t.Errorf("%d uploads were left open", n)
			}
			if answer == http.StatusAccepted && begun != result.Copied.Objects-manifestsOf(cargo) {
				t.Errorf("%d uploads begun for %d blobs: the session that was offered is not gone on with", begun, result.Copied.Objects-manifestsOf(cargo))
			}
			if answer == http.StatusCreated {
				if result.Mounted.Objects == 0 || asked != result.Mounted.Objects {
					t.Errorf("mounted %d, asked %d times", result.Mounted.Objects, asked)
				}
			} else if answer != http.StatusAccepted && (asked != 1 || result.Mounted.Objects != 0) {
				t.Errorf("mounted %d, asked %d times", result.Mounted.Objects, asked)
			}
		})
	}
}

func manifestsOf(c cargo) int {
	unique := map[digest.Digest]bool{}
	for _, p := range c.pieces {
		if strings.Contains(p.desc.MediaType, ".manifest.") || strings.Contains(p.desc.MediaType, ".index.") {
			unique[p.desc.Digest] = true
		}
	}
	return len(unique)
}

// Nothing of another registry's is named to a registry.
func TestCopyMountsOnlyWithin(t *testing.T) {
	from, to := registrytest.New(t, registrytest.Options{}), registrytest.New(t, registrytest.Options{})
	c, s := client(t, quick()), newSample(t, "one")
	store(t, c, "oci://"+from.Host+"/secret/project", "1.0.0", s)
	if _, err := carry(t.Context(), c, location(t, "oci://"+from.Host+"/secret/project:1.0.0"), location(t, "oci://"+to.Host+"/shop"), "1.0.0", registry.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range to.Requests() {
		if strings.Contains(r.Path+r.Query, "secret") || strings.Contains(r.Query, "mount") {
			t.Errorf("%s %s?%s", r.Method, r.Path, r.Query)
		}
	}
}

// What the source has not got, or not right, is named with all that is known of
// it; the rest is copied, no name leads to it, and the second run sends what is
// missing.
func TestCopyGoesOnPastMissing(t *testing.T) {
	s := newSample(t, "one")
	lost := s.imageLayer.desc.Digest.String()
	broken := s.chartLayer.desc.Digest.String()
	bad := true
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		switch {
		case bad && strings.HasSuffix(r.URL.Path, lost) && r.Method == http.MethodGet:
			return &registrytest.Fault{Status: http.StatusNotFound}
		case bad && strings.HasSuffix(r.URL.Path, broken) && r.Method == http.MethodGet:
			return &registrytest.Fault{Edit: bytes.ToUpper}
		}
		return nil
	}})
	c := client(t, quick())
	at := "oci://" + reg.Host + "/shop"
	store(t, c, at, "1.0.0", s)
	target := registrytest.New(t, registrytest.Options{})
	to := location(t, "oci://"+target.Host+"/shop")
	result, err := carry(t.Context(), c, location(t, at+":1.0.0"), to, "1.0.0", registry.CopyOptions{})
	var failed *registry.CopyError
	if !errors.As(err, &failed) || failed.Side != "source" || failed.Step != "reading" {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{lost, broken, "part of " + s.image.desc.Digest.String(), reg.Host} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "cancel") {
		t.Errorf("what was given up because of it is said: %v", err)
	}
	if _, err := c.Open(t.Context(), location(t, to.String()+":1.0.0")); err == nil {
		t.Error("a tag leads to half a copy")
	}
	bad = false
	again, err := carry(t.Context(), c, location(t, at+":1.0.0"), to, "1.0.0", registry.CopyOptions{})
	if err != nil || again.Copied.Objects >= result.Copied.Objects || again.Skipped.Objects != result.Copied.Objects {
		t.Errorf("the second time: copied %d, skipped %d of %d, %v", again.Copied.Objects, again.Skipped.Objects, result.Copied.Objects, err)
	}
	contractAttachments(t, open(t, c, to.String()+":1.0.0"), s)
}

// Of many at the same time one fails: the error is about that one.
func TestCopyFirstCause(t *testing.T) {
	c, cargo := client(t, quick()), wideCargo(t)
	from := filepath.Join(t.TempDir(), "from")
	cargo.lay(t, c, from, "1.0.0")
	broken := blob("", "layer 7").desc.Digest.String()
	target := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if strings.Contains(r.URL.RawQuery, strings.ReplaceAll(broken, ":", "%3A")) {
			return &registrytest.Fault{Status: http.StatusForbidden, Body: `{"errors":[{"code":"DENIED","message":"quota exceeded"}]}`}
		}
		return nil
	}})
	_, err := carry(t.Context(), c, location(t, from), location(t, "oci://"+target.Host+"/shop"), "1.0.0", registry.CopyOptions{})
	var failed *registry.CopyError
	var denied *registry.DeniedError
	if !errors.As(err, &failed) || !errors.As(err, &denied) {
		t.Fatalf("got %v", err)
	}
	if failed.Side != "target" || failed.Step != "writing" || failed.Digest.String() != broken || failed.Of == "" {
		t.Errorf("got %+v", failed)
	}
	if text := err.Error(); strings.Contains(text, "cancel") || strings.Count(text, "\n") > 0 || !strings.Contains(text, "quota exceeded") || !strings.Contains(text, target.Host) {
		t.Errorf("says %q", text)
	}
}

// A layer that may not be given on is left to its addresses when the source has
// not got it, and copied when it has.
func TestCopyForeignLayer(t *testing.T) {
	for _, has := range []bool{true, false} {
		config, layer := blob(ocispec.MediaTypeImageConfig, "{}"), blob("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "windows")
		layer.desc.URLs = []string{"https://mcr.example/layer"}
		m := image(t, config, "", nil, layer)
		from := filepath.Join(t.TempDir(), "from")
		pieces := []piece{config, m}
		if has {
			pieces = append(pieces, layer)
		}
		writeLayout(t, from, entryOf(m, "1.0.0"), pieces...)
		c, to := client(t, quick()), filepath.Join(t.TempDir(), "to")
		result, err := carry(t.Context(), c, location(t, from), location(t, to), "1.0.0", registry.CopyOptions{})
		if err != nil || len(result.LeftOut) == 0 == !has {
			t.Errorf("has it: %v; left out %v, %v", has, result.LeftOut, err)
		}
	}
}

// Many copies into one layout at the same time: all are there.
func TestCopyParallelIntoLayout(t *testing.T) {
	c, to := client(t, quick()), filepath.Join(t.TempDir(), "to")
	var wait sync.WaitGroup
	var want []string
	for i := range 8 {
		name := fmt.Sprintf("shop-1.0.%d", i)
		want = append(want, name)
		from := filepath.Join(t.TempDir(), name+".tar")
		s := newSample(t, name)
		store(t, c, from, name, s)
		wait.Go(func() {
			if _, err := carry(t.Context(), c, location(t, from), location(t, "oci-layout:"+to), name, registry.CopyOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	names, err := c.List(t.Context(), location(t, to))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for _, name := range want {
		src := open(t, c, to+"#"+name)
		s := newSample(t, name)
		contractContent(t, src, s)
		contractAttachments(t, src, s)
	}
}
