package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

func TestOpen(t *testing.T) {
	s, root := built(t)
	b, err := Open(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	if b.Name() != "shop" || b.Version() != "1.4.0+build.7" || len(b.Release.Components) != 4 || b.Installable() != nil {
		t.Errorf("opened %s %s with %d components, installable: %v", b.Name(), b.Version(), len(b.Release.Components), b.Installable())
	}
	if diff := cmp.Diff(map[string][]byte{"values/db.yaml": []byte("size: 10Gi\n")}, b.ValuesFiles); diff != "" {
		t.Errorf("values files (-want +got):\n%s", diff)
	}
	if !bytes.Equal(b.RootBytes, s.blobs[root.Digest]) {
		t.Error("RootBytes are not the root's bytes")
	}
	for name, text := range map[string]string{"db": "the db", "web": "the app", "admin": "the app", "rules": "the rules"} {
		tgz, err := b.Chart(t.Context(), name)
		if err != nil || string(tgz) != "not really a tgz: "+text {
			t.Errorf("chart of %s is %q, %v", name, tgz, err)
		}
	}
	_, err = b.Chart(t.Context(), "wbe")
	if want := `no component "wbe"; there are admin, db, rules, web; did you mean "web"?`; errText(err) != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestChartIsHeldAgainstDigestAndLock(t *testing.T) {
	s, root := built(t)
	b, err := Open(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	locked, _ := b.Lock.Chart("db")
	s.blobs[locked.Content] = []byte("not really a tgz: the dB")
	_, err = b.Chart(t.Context(), "db")
	var bad *ContentError
	if !errors.As(err, &bad) || bad.Digest != locked.Content || bad.Component != "db" || bad.Chart != "db 0.1.0+b.2" {
		t.Errorf("changed .tgz: error is %v", err)
	}
	delete(s.blobs, locked.Content)
	if _, err = b.Chart(t.Context(), "db"); !errors.As(err, &bad) || bad.Reason != "incomplete: it is missing" {
		t.Errorf("missing .tgz: error is %v", err)
	}
	b.Lock.Charts[1].Content = digest.FromString("other")
	if _, err = b.Chart(t.Context(), "db"); !errors.As(err, &bad) || !strings.Contains(bad.Reason, "locked is") {
		t.Errorf("another .tgz than the lock's: error is %v", err)
	}
}

// A forgery changes a good bundle and makes every digest fit again.
type forgery struct {
	index    func(*ocispec.Index)
	manifest func(*store, *ocispec.Manifest)
	file     func(string) string
	lock     func(string) string
}

func (f forgery) make(t *testing.T) (*store, ocispec.Descriptor) {
	t.Helper()
	s, root := built(t)
	var index ocispec.Index
	var manifest ocispec.Manifest
	unmarshal(t, s.blobs[root.Digest], &index)
	unmarshal(t, s.blobs[index.Manifests[0].Digest], &manifest)
	for i, change := range []func(string) string{f.file, f.lock} {
		if change != nil {
			old := string(s.blobs[manifest.Layers[i].Digest])
			if change(old) == old {
				t.Fatal("the forgery changes nothing")
			}
			manifest.Layers[i] = s.add(manifest.Layers[i].MediaType, []byte(change(old)))
		}
	}
	if f.manifest != nil {
		f.manifest(s, &manifest)
	}
	annotations := index.Manifests[0].Annotations
	index.Manifests[0] = s.addJSON(t, ocispec.MediaTypeImageManifest, manifest)
	index.Manifests[0].Annotations = annotations
	if f.index != nil {
		f.index(&index)
	}
	return s, s.addJSON(t, ocispec.MediaTypeImageIndex, index)
}

func unmarshal(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func replace(old, with string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, with, 1) }
}

func TestOpenRefuses(t *testing.T) {
	dup := func(i *ocispec.Index, n int) { i.Manifests = append(i.Manifests, i.Manifests[n]) }
	tests := []struct {
		name  string
		forge forgery
		want  string
		is    func(error) bool
	}{
		{"a later bundle", forgery{index: func(i *ocispec.Index) { i.ArtifactType = "application/vnd.waybill.bundle.v2+json" }}, "made by a newer waybill", isA[*NewerError]},
		{"a later release manifest", forgery{manifest: func(_ *store, m *ocispec.Manifest) { m.ArtifactType = "application/vnd.waybill.release.v2+json" }}, "made by a newer waybill", isA[*NewerError]},
		{"a later lock", forgery{manifest: func(_ *store, m *ocispec.Manifest) { m.Layers[1].MediaType = "application/vnd.waybill.lock.v2+yaml" }}, "made by a newer waybill", isA[*NewerError]},
		{"a later release file", forgery{file: replace("waybill/v1", "waybill/v2")}, `made by a newer waybill: "waybill/v2"`, isA[*NewerError]},
		{"another index", forgery{index: func(i *ocispec.Index) { i.ArtifactType = "" }}, "not a bundle", func(err error) bool { return errors.Is(err, ErrNotBundle) }},
		{"an index that calls itself a manifest", forgery{index: func(i *ocispec.Index) { i.MediaType = ocispec.MediaTypeImageManifest }}, "not a bundle", func(err error) bool { return errors.Is(err, ErrNotBundle) }},
		{"no release entry", forgery{index: func(i *ocispec.Index) { i.Manifests = i.Manifests[1:] }}, "0 entries of role release", isA[*ContentError]},
		{"two release entries", forgery{index: func(i *ocispec.Index) { dup(i, 0) }}, "2 entries of role release", isA[*ContentError]},
		{"a chart twice", forgery{index: func(i *ocispec.Index) { dup(i, 1) }}, "two entries of role chart", isA[*ContentError]},
		{"a chart left out", forgery{index: func(i *ocispec.Index) { i.Manifests = i.Manifests[:3] }}, "component admin, chart app 1.14.4): the bundle has no such entry", isA[*ContentError]},
		{"a chart for another component", forgery{index: func(i *ocispec.Index) { i.Manifests[1].Annotations[AnnotationComponent] = "db" }}, "locked for component db is", isA[*ContentError]},
		{"a chart for an unknown component", forgery{index: func(i *ocispec.Index) { i.Manifests[1].Annotations[AnnotationComponent] = "x" }}, `the lock has no component "x"`, isA[*ContentError]},
		{"a chart for no component", forgery{index: func(i *ocispec.Index) { delete(i.Manifests[1].Annotations, AnnotationComponent) }}, `the lock has no component ""`, isA[*ContentError]},
		{"a chart with another version", forgery{index: func(i *ocispec.Index) { i.Manifests[1].Annotations[ocispec.AnnotationVersion] = "9.9.9" }}, "locked for component rules is rules 1.4.0", isA[*ContentError]},
		{"another version in the root", forgery{index: func(i *ocispec.Index) { i.Annotations[ocispec.AnnotationVersion] = "9.9.9" }}, `it calls itself "shop" "9.9.9"`, isA[*ContentError]},
		{"a lock of another release", forgery{lock: replace("name: shop", "name: shap")}, "its lock of shap", isA[*ContentError]},
		{"a lock of another chart", forgery{lock: replace("component: db", "component: dc")}, "its release file has the components", isA[*ContentError]},
		{"a release file with a cycle", forgery{file: replace("needs: [db]", "needs: [web]")}, "component web needs itself", isA[*ContentError]},
		{"a release file that does not fit", forgery{file: replace("kind: Release", "kindd: Release")}, `unknown key "kindd"`, isA[*ContentError]},
		{"no lock", forgery{manifest: func(_ *store, m *ocispec.Manifest) { m.Layers = append(m.Layers[:1], m.Layers[2:]...) }}, "it has no layer", isA[*ContentError]},
		{"two locks", forgery{manifest: func(_ *store, m *ocispec.Manifest) { m.Layers = append(m.Layers, m.Layers[1]) }}, "it has two layers", isA[*ContentError]},
		{"no values file", forgery{manifest: func(_ *store, m *ocispec.Manifest) { m.Layers = m.Layers[:2] }}, `the values file "values/db.yaml" is missing`, isA[*ContentError]},
		{"another manifest", forgery{manifest: func(_ *store, m *ocispec.Manifest) { m.ArtifactType = "application/x" }}, "it is no release manifest", isA[*ContentError]},
		{"a layer of incredible size", forgery{manifest: func(_ *store, m *ocispec.Manifest) { m.Layers[0].Size = 1 << 62 }}, "more than the", isA[*ContentError]},
		{"a layer of negative size", forgery{manifest: func(_ *store, m *ocispec.Manifest) { m.Layers[0].Size = -1 }}, "its size is given as -1", isA[*ContentError]},
		{"a layer without a digest", forgery{manifest: func(_ *store, m *ocispec.Manifest) { m.Layers[0].Digest = "../../etc/passwd" }}, "no usable digest", isA[*ContentError]},
		{"a layer that is missing", forgery{manifest: func(s *store, m *ocispec.Manifest) { delete(s.blobs, m.Layers[1].Digest) }}, "missing", isA[*ContentError]},
		{"a layer that was cut", forgery{manifest: func(s *store, m *ocispec.Manifest) { s.blobs[m.Layers[1].Digest] = s.blobs[m.Layers[1].Digest][1:] }}, "bytes long", isA[*ContentError]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, root := tt.forge.make(t)
			_, err := Open(t.Context(), s, root)
			if !tt.is(err) || !strings.Contains(errText(err), tt.want) {
				t.Errorf("error is %T %v, want %q", err, err, tt.want)
			}
		})
	}
	s, root := built(t)
	var index ocispec.Index
	unmarshal(t, s.blobs[root.Digest], &index)
	if _, err := Open(t.Context(), s, index.Manifests[1]); !errors.Is(err, ErrNotBundle) {
		t.Errorf("opening a chart: error is %v, want ErrNotBundle", err)
	}
	s.blobs[root.Digest] = bytes.Replace(s.blobs[root.Digest], []byte("shop"), []byte("shap"), 1)
	if _, err := Open(t.Context(), s, root); !isA[*ContentError](err) {
		t.Errorf("changed root: error is %v, want a ContentError", err)
	}
}

func TestUnknownThingsAreCarried(t *testing.T) {
	s, root := forgery{
		index: func(i *ocispec.Index) {
			entry := i.Manifests[1]
			entry.Annotations = map[string]string{AnnotationRole: "policy"}
			i.Manifests = append(i.Manifests, entry)
			i.Manifests[1].Annotations["waybill.hint"] = "x"
		},
		manifest: func(s *store, m *ocispec.Manifest) {
			m.Layers = append(m.Layers, s.add("application/vnd.waybill.notes.v1+yaml", []byte("x")))
		},
	}.make(t)
	b, err := Open(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"policy"}, b.UnknownRoles()); diff != "" {
		t.Errorf("unknown roles (-want +got):\n%s", diff)
	}
	if err := b.Installable(); !isA[*UnknownRoleError](err) {
		t.Errorf("installable: %v, want an UnknownRoleError", err)
	}
}

func TestCheckWalksTheGraph(t *testing.T) {
	s, root := built(t)
	b, err := Open(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, blob := range s.blobs {
		size += int64(len(blob))
	}
	want := CheckResult{Manifests: 5, Blobs: 10, Bytes: size}
	for name, opts := range map[string]CheckOptions{"read": {}, "asked": {Exists: s.Exists}, "both": {Exists: s.Exists, ReadData: true}, "small ones read": {Exists: s.Exists, ReadUpTo: 1 << 20}} {
		var begun, right, read atomic.Int64
		opts.OnCheck = func(ocispec.Descriptor) { begun.Add(1) }
		opts.OnRead = func(n int64) { read.Add(n) }
		opts.OnChecked = func(ocispec.Descriptor) { right.Add(1) }
		if got, err := b.Check(t.Context(), opts); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
		if begun.Load() != 14 || right.Load() != 14 { // all but the root, which is open
			t.Errorf("%s: told of %d begun and %d right", name, begun.Load(), right.Load())
		}
		if all := size - root.Size; name != "asked" && read.Load() != all || name == "asked" && (read.Load() == 0 || read.Load() >= all) {
			t.Errorf("%s: told of %d bytes of %d", name, read.Load(), all)
		}
	}
}

func TestCheckReportsAllThatIsWrong(t *testing.T) {
	s, root := built(t)
	b, err := Open(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	db, _ := b.Lock.Chart("db")
	web, _ := b.Lock.Chart("web")
	rules, _ := b.Lock.Chart("rules")
	delete(s.blobs, db.Content)
	s.blobs[web.Content] = bytes.ToUpper(s.blobs[web.Content])
	s.blobs[rules.Manifest] = []byte("{}")
	missing := db.Content.String() + " (component db, chart db 0.1.0+b.2): incomplete: it is missing"
	cut := rules.Manifest.String() + " (component rules, chart rules 1.4.0): corrupt: is not 407 bytes long"
	changed := web.Content.String() + " (component admin,web, chart app 1.14.4): corrupt: content is something else of the same length"

	_, err = b.Check(t.Context(), CheckOptions{})
	if want := strings.Join([]string{cut, missing, changed}, "\n"); errText(err) != want {
		t.Errorf("error is\n%s\nwant\n%s", errText(err), want)
	}
	_, err = b.Check(t.Context(), CheckOptions{Exists: s.Exists})
	if want := strings.Join([]string{cut, missing}, "\n"); errText(err) != want {
		t.Errorf("without reading data the error is\n%s\nwant\n%s", errText(err), want)
	}
}

// unreachable answers for one digest with an error of its own.
type unreachable struct {
	*store
	digest digest.Digest
}

var errUnreachable = errors.New("connection refused")

func (u unreachable) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if desc.Digest == u.digest {
		return nil, errUnreachable
	}
	return u.store.Fetch(ctx, desc)
}

func TestCheckTellsUnreachableFromMissing(t *testing.T) {
	s, root := built(t)
	locked, _ := testSpec(t).Lock.Chart("db")
	b, err := Open(t.Context(), unreachable{s, locked.Manifest}, root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Check(t.Context(), CheckOptions{}); !errors.Is(err, errUnreachable) || isA[*ContentError](err) {
		t.Errorf("error is %v, want the source's", err)
	}
}

func TestCheckFollowsIndexes(t *testing.T) {
	s, _ := built(t)
	deep := s.add("application/octet-stream", []byte("layer"))
	desc := s.addJSON(t, ocispec.MediaTypeImageManifest, ocispec.Manifest{Config: deep})
	images := []ocispec.Descriptor{}
	for range 3 {
		desc = s.addJSON(t, ocispec.MediaTypeImageIndex, ocispec.Index{Manifests: []ocispec.Descriptor{desc}})
	}
	images = append(images, desc)
	endless := desc
	for range maxDepth {
		endless = s.addJSON(t, ocispec.MediaTypeImageIndex, ocispec.Index{Manifests: []ocispec.Descriptor{endless}})
	}
	open := func(entries ...ocispec.Descriptor) *Bundle {
		other, root := forgery{index: func(i *ocispec.Index) {
			for _, e := range entries {
				e.Annotations = map[string]string{AnnotationRole: "later"}
				i.Manifests = append(i.Manifests, e)
			}
		}}.make(t)
		maps.Copy(other.blobs, s.blobs)
		b, err := Open(t.Context(), other, root)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	got, err := open(images...).Check(t.Context(), CheckOptions{})
	if err != nil || got.Manifests != 5+4 || got.Blobs != 10+1 {
		t.Errorf("checked %+v, %v", got, err)
	}
	delete(s.blobs, deep.Digest)
	if _, err := open(images...).Check(t.Context(), CheckOptions{}); !strings.Contains(errText(err), deep.Digest.String()+": incomplete: it is missing") {
		t.Errorf("error is %v", err)
	}
	if _, err := open(endless).Check(t.Context(), CheckOptions{}); !strings.Contains(errText(err), "nested too deeply") {
		t.Errorf("error is %v", err)
	}
}

var _ content.Storage = (*store)(nil)
