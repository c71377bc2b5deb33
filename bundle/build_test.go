package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The digest of the test bundle. It changes when the format does, and then
// docs/format.md changed before it; a new Go or a new library must not move it.
const pinned = "sha256:69b966019ad7d05e7a07a440adea2e3ff7955ad46432cc135faa681e9591cbc7"

func TestBuildIsPinned(t *testing.T) {
	s, root := built(t)
	if root.Digest != pinned {
		t.Errorf("the test bundle is %s, pinned is %s", root.Digest, pinned)
	}
	var index bytes.Buffer
	if err := json.Indent(&index, s.blobs[root.Digest], "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/index.json", index.Bytes())
}

func TestBuildTwiceGivesOneDigest(t *testing.T) {
	_, first := built(t)
	for range 5 {
		spec := testSpec(t)
		slices.Reverse(spec.Lock.Charts)
		spec.Release = nil // read from the file again
		spec.Charts = maps.Clone(spec.Charts)
		spec.LockFile = encoded(spec.Lock)
		again, err := Build(t.Context(), newStore(), spec, BuildOptions{Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		if again.Digest != first.Digest {
			t.Fatalf("built %s, then %s", first.Digest, again.Digest)
		}
	}
}

func TestPackedAmount(t *testing.T) {
	packed, err := Pack(t.Context(), testSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	s := newStore()
	if err := packed.Push(t.Context(), s, BuildOptions{}); err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, desc := range s.pushed {
		size += desc.Size
	}
	if parts, bytes := packed.Amount(); parts != len(s.pushed) || bytes != size {
		t.Errorf("the amount is %d parts of %d bytes, pushed were %d of %d", parts, bytes, len(s.pushed), size)
	}
}

func TestBuildPushesTheRootLastAndOnlyOnce(t *testing.T) {
	s := newStore()
	var begun, pushed, skipped, readBack atomic.Int32
	opts := BuildOptions{
		OnPush:     func(ocispec.Descriptor) { begun.Add(1) },
		OnPushed:   func(ocispec.Descriptor) { pushed.Add(1) },
		OnSkipped:  func(ocispec.Descriptor) { skipped.Add(1) },
		OnReadBack: func(ocispec.Descriptor) { readBack.Add(1) },
	}
	root, err := Build(t.Context(), s, testSpec(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	if last := s.pushed[len(s.pushed)-1]; last.Digest != root.Digest {
		t.Errorf("pushed last is %s, want the root", last.Digest)
	}
	seenManifest := false
	for _, desc := range s.pushed {
		if seenManifest && !isManifest(desc.MediaType) {
			t.Errorf("blob %s was pushed after a manifest", desc.Digest)
		}
		seenManifest = seenManifest || isManifest(desc.MediaType)
	}
	// release file, lock, values file, {}; 3 charts of 2 blobs; 4 manifests; root
	if n := len(s.pushed); n != 15 || begun.Load() != 15 || pushed.Load() != 15 || skipped.Load() != 0 || readBack.Load() != 15 {
		t.Errorf("pushed %d, told of %d begun, %d pushed, %d skipped and %d read back", n, begun.Load(), pushed.Load(), skipped.Load(), readBack.Load())
	}
	again, err := Build(t.Context(), s, testSpec(t), opts)
	if err != nil || again.Digest != root.Digest {
		t.Fatalf("the second build gave %s, %v", again.Digest, err)
	}
	if n := len(s.pushed); n != 15 || skipped.Load() != 15 {
		t.Errorf("the second build pushed %d and skipped %d", n-15, skipped.Load())
	}
}

func TestBuildRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Spec)
		want   string
		is     func(error) bool
	}{
		{"a release with a cycle", func(s *Spec) { s.Release.Components[0].Needs = []string{"web"} }, `component db of stage "base" needs web of the later stage "apps"`, isA[*LintError]},
		{"a release file that does not parse", func(s *Spec) { s.Release, s.ReleaseFile = nil, []byte("a: b") }, `unknown key "a"`, isA[*FileError]},
		{"a component that is not locked", func(s *Spec) { s.Lock.Charts = s.Lock.Charts[1:] }, "component admin is not in the lock", isA[*StaleError]},
		{"a component that is gone", func(s *Spec) {
			s.Release.Components = s.Release.Components[:3]
		}, "component rules is locked and not in the release file", isA[*StaleError]},
		{"another chart than the locked one", func(s *Spec) { s.Charts["db"] = s.Charts["rules"] }, "component db: its chart is sha256:", isA[*StaleError]},
		{"no chart", func(s *Spec) { delete(s.Charts, "db") }, "component db has no chart", isA[*StaleError]},
		{"the lock of another release", func(s *Spec) { s.Lock.Release.Name = "other" }, "the release is shop, locked is other", isA[*StaleError]},
		{"a lock file that was edited", func(s *Spec) { s.LockFile = []byte("# mine\n" + string(encoded(s.Lock))) }, "the lock file was changed by hand", isA[*StaleError]},
		{"a missing values file", func(s *Spec) { delete(s.ValuesFiles, "values/db.yaml") }, `values file "values/db.yaml"`, isError},
		{"a values file that is none", func(s *Spec) { s.ValuesFiles["values/db.yaml"] = []byte("- a") }, "values/db.yaml:1:1: want a mapping", isA[*FileError]},
		{"an annotation of ours", func(s *Spec) { s.Annotations["waybill.role"] = "x" }, `annotation "waybill.role" belongs to the bundle itself`, isError},
		{"annotations without end", func(s *Spec) { s.Annotations["a"] = strings.Repeat("a", maxManifestBytes) }, "registries take", isError},
		{"a chart whose .tgz is another", func(s *Spec) { s.Lock.Charts[0].Content = s.Lock.Charts[0].Manifest }, "component admin, chart app 1.14.4): holds the chart sha256:", isA[*ContentError]},
		{"a chart with corrupt bytes", func(s *Spec) {
			chart := s.Charts["db"].(testChart)
			chart.blobs[chart.locked.Content] = []byte("not really a tgz: the dB")
		}, "content is sha256:", isA[*ContentError]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, s := testSpec(t), newStore()
			tt.change(&spec)
			_, err := Build(t.Context(), s, spec, BuildOptions{})
			if !tt.is(err) || !strings.Contains(errText(err), tt.want) {
				t.Errorf("error is %T %v, want %q", err, err, tt.want)
			}
			for _, desc := range s.pushed {
				if isManifest(desc.MediaType) {
					t.Errorf("a manifest was pushed all the same: %s", desc.Digest)
				}
			}
		})
	}
}

func isA[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

func encoded(l *Lock) []byte {
	data, err := l.Encode()
	if err != nil {
		panic(err) // the test's own lock
	}
	return data
}

func isError(err error) bool { return err != nil }

// A forgetful place says yes to everything and keeps other bytes.
type forgetful struct{ *store }

func (f forgetful) Push(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	if err := f.store.Push(ctx, desc, r); err != nil || desc.MediaType != ocispec.MediaTypeImageIndex {
		return err
	}
	f.blobs[desc.Digest] = bytes.Replace(f.blobs[desc.Digest], []byte("shop"), []byte("shap"), 1)
	return nil
}

func TestBuildReadsBack(t *testing.T) {
	_, err := Build(t.Context(), forgetful{newStore()}, testSpec(t), BuildOptions{})
	if !isA[*ContentError](err) || !strings.HasPrefix(err.Error(), "reading back what was pushed: "+pinned) {
		t.Errorf("error is %v", err)
	}
}

func TestBuildWritesTheLockByteForByte(t *testing.T) {
	s, root := built(t)
	b, err := Open(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := testSpec(t).Lock.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(lock), string(b.LockFile)); diff != "" {
		t.Errorf("the lock in the bundle differs (-made +packed):\n%s", diff)
	}
	if diff := cmp.Diff(string(readTestdata(t, "release.yaml")), string(b.ReleaseFile)); diff != "" {
		t.Errorf("the release file in the bundle differs (-written +packed):\n%s", diff)
	}
}
