package registry_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/registry"
)

// saving is an image with layers around the sizes at which something changes,
// in a folder, and the archive that it makes.
type saving struct {
	from, dir string
	root      piece
	layers    []piece
	want      []byte
	bytes     int64 // of all blobs that are read when it is saved
}

func newSaving(t *testing.T) saving {
	return newSavingOf(t, 0, 1, 511, 512, 513, 1<<20-512, 1<<20, 1<<20+1, 3<<20+7)
}

func newSavingOf(t *testing.T, sizes ...int) saving {
	r := rand.New(rand.NewPCG(1, 2))
	s := saving{from: filepath.Join(t.TempDir(), "from"), dir: t.TempDir()}
	config := blob(ocispec.MediaTypeImageConfig, "{}")
	pieces := []piece{config}
	for _, size := range sizes {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		s.layers = append(s.layers, blob(ocispec.MediaTypeImageLayer, string(data)))
	}
	s.root = image(t, config, "", nil, s.layers...)
	pieces = append(append(pieces, s.layers...), s.root)
	writeLayout(t, s.from, entryOf(s.root, "1.0.0"), pieces...)
	for _, p := range pieces[:len(pieces)-1] {
		s.bytes += p.desc.Size
	}
	if _, _, err := s.save(t, t.Context(), func(int64) {}, 4); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.want, err = os.ReadFile(s.to()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s saving) to() string      { return filepath.Join(s.dir, "saved.tar") }
func (s saving) partial() string { return s.to() + ".partial" }
func (s saving) journal() string { return s.to() + ".partial.journal" }

// save saves once; at is told how many bytes were read so far: 0 when it begins to
// go on with what is there.
func (s saving) save(t *testing.T, ctx context.Context, at func(int64), concurrency int) (kept *registry.Resumption, read int64, err error) { //nolint:revive // the test's own context ends later
	c := client(t, quick())
	src := open(t, c, s.from)
	dst, err := c.Create(ctx, location(t, s.to()))
	if err != nil {
		t.Fatal(err)
	}
	dst.Resume.OnResume = func(r registry.Resumption) { kept = &r; at(0) }
	var total atomic.Int64
	_, err = registry.Copy(ctx, src, dst, []ocispec.Descriptor{s.root.desc}, registry.CopyOptions{
		Concurrency: concurrency, OnBytes: func(n int) { at(total.Add(int64(n))) },
	})
	if err == nil {
		err = dst.Tag(ctx, s.root.desc, "1.0.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	err = dst.Commit(ctx)
	return kept, total.Load(), err
}

// cut saves until so many bytes were read.
func (s saving) cut(t *testing.T, after int64, concurrency int) *registry.UnfinishedError {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, _, err := s.save(t, ctx, func(n int64) {
		if n >= after {
			cancel()
		}
	}, concurrency)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("cut after %d bytes: %v", after, err)
	}
	var unfinished *registry.UnfinishedError
	errors.As(err, &unfinished)
	return unfinished
}

func (s saving) holds(t *testing.T, want ...string) {
	t.Helper()
	found, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Name())
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// An archive that was cut at any place goes on from there: nothing that the
// journal tells of is read again, and its bytes are those of one that was not cut.
// The file that was there stays until then.
func TestArchiveResumes(t *testing.T) {
	s := newSaving(t)
	cuts := []int64{1}
	for at, layers := int64(0), s.layers; len(layers) > 0; layers = layers[1:] {
		at += layers[0].desc.Size
		cuts = append(cuts, max(at-1, 1), max(at, 1), at+1)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		cuts = append(cuts, 1+r.Int64N(s.bytes-1))
	}
	for i, after := range cuts {
		if after >= s.bytes {
			continue
		}
		old := []byte("what was there")
		if err := os.WriteFile(s.to(), old, 0o644); err != nil {
			t.Fatal(err)
		}
		concurrency := 1 + 7*(i%2)
		unfinished := s.cut(t, after, concurrency)
		if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, old) {
			t.Errorf("cut after %d: the old file has %d bytes, %v", after, len(now), err)
		}
		if unfinished == nil {
			s.holds(t, "saved.tar")
		} else {
			s.holds(t, "saved.tar", "saved.tar.partial", "saved.tar.partial.journal")
		}
		kept, read, err := s.save(t, t.Context(), func(int64) {}, concurrency)
		if err != nil {
			t.Fatalf("cut after %d: %v", after, err)
		}
		switch {
		case unfinished == nil && kept == nil:
		case kept == nil || kept.Why != "" || kept.Kept.Bytes != unfinished.Done.Bytes:
			t.Errorf("cut after %d: %+v is kept of %+v", after, kept, unfinished)
		case read != s.bytes-kept.Kept.Bytes && read != s.bytes-kept.Kept.Bytes+s.root.desc.Size: // the manifest is not read but at hand
			t.Errorf("cut after %d: %d of %d bytes are kept, and %d are read", after, kept.Kept.Bytes, s.bytes, read)
		case concurrency == 1 && kept.Kept.Bytes < after:
			t.Errorf("cut after %d: %d bytes are kept", after, kept.Kept.Bytes)
		}
		if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
			t.Errorf("cut after %d: another archive, %v", after, err)
		}
		s.holds(t, "saved.tar")
	}
}

// An archive that is cut again and again is whole in the end.
func TestArchiveResumesManyTimes(t *testing.T) {
	s := newSaving(t)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := s.save(t, ctx, func(n int64) {
			if n >= 600_000 {
				cancel()
			}
		}, 2)
		cancel()
		if err == nil {
			break
		}
	}
	if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
		t.Errorf("another archive, %v", err)
	}
	s.holds(t, "saved.tar")
}

// Blobs that are written past the cache, and hashed and written while more of
// them is read, come out as all others do; what is gone on from is not read again.
func TestArchiveOfLargeBlobsResumes(t *testing.T) {
	s := newSavingOf(t, 5, 80<<20+1, 700_000, 40<<20-512, 33<<20+4097)
	kept := int64(0)
	for i, after := range []int64{1, 32<<20 + 1, 50 << 20, 90 << 20, 130 << 20, s.bytes - 1} {
		_ = os.Remove(s.to())
		unfinished := s.cut(t, after, 1+i%3)
		before, read, err := s.save(t, t.Context(), func(int64) {}, 1+i%3)
		if err != nil {
			t.Fatalf("cut after %d: %v", after, err)
		}
		if unfinished != nil {
			kept = before.Kept.Bytes
			if read != s.bytes-kept && read != s.bytes-kept+s.root.desc.Size { // the manifest is not read but at hand
				t.Errorf("cut after %d: %d of %d bytes are kept, and %d are read", after, kept, s.bytes, read)
			}
		}
		if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
			t.Errorf("cut after %d: another archive, %v", after, err)
		}
		s.holds(t, "saved.tar")
	}
	if kept < s.bytes/2 {
		t.Errorf("cut at its end, %d of %d bytes are kept", kept, s.bytes)
	}
}

func journalLine(text string) string {
	return fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)), text)
}

// What was changed behind the back of a writer that was killed is found, also when
// the one that goes on is interrupted before it came to it.
func TestArchiveDoubtIsNotForgotten(t *testing.T) {
	s := newSaving(t)
	for _, interrupted := range []bool{false, true} {
		_ = os.Remove(s.to())
		if s.cut(t, s.bytes-1, 1) == nil {
			t.Fatal("nothing is kept")
		}
		text, err := os.ReadFile(s.journal())
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		killed := lines[:len(lines)-2] // without the last one, which says that it ended
		killed = append(killed, journalLine(fmt.Sprintf("safe 0 %d", len(killed)-1)))
		if err := os.WriteFile(s.journal(), []byte(strings.Join(killed, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		time.Sleep(700 * time.Millisecond) // a change at once is one of the writer's
		f, err := os.OpenFile(s.partial(), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("another"), int64(len(s.want))-4096); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if interrupted {
			s.cut(t, 0, 1)
		}
		if _, _, err := s.save(t, t.Context(), func(int64) {}, 1); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
			t.Errorf("another archive, interrupted %v: %v", interrupted, err)
		}
	}
}

// Whatever became of the partial file or of its journal, what comes out is right,
// or what was left is begun again and that is said.
func TestArchiveDoubtsWhatWasLeft(t *testing.T) {
	s := newSaving(t)
	edit := func(path string, f func([]byte) []byte) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	flip := func(data []byte) []byte { data[r.IntN(len(data))] ^= 1 << r.IntN(8); return data }
	head := func(data []byte) string { first, _, _ := strings.Cut(string(data), "\n"); return first + "\n" }
	large := "blobs/sha256/" + s.layers[len(s.layers)-1].desc.Digest.Encoded()
	const begunAgain = true
	for name, tc := range map[string]struct {
		change func()
		again  bool
	}{
		"a bit of the file is another": {func() { edit(s.partial(), flip) }, false},
		"every block of the file has another bit": {func() {
			edit(s.partial(), func(data []byte) []byte {
				for at := 0; at < len(data); at += 512 {
					data[at+r.IntN(512)] ^= 0xff
				}
				return data
			})
		}, false},
		"the file is zeros":           {func() { edit(s.partial(), func(data []byte) []byte { clear(data); return data }) }, false},
		"the file is cut":             {func() { edit(s.partial(), func(data []byte) []byte { return data[:r.IntN(len(data))+1] }) }, false},
		"the file is longer":          {func() { edit(s.partial(), func(data []byte) []byte { return append(data, data...) }) }, false},
		"a bit of the journal":        {func() { edit(s.journal(), func(data []byte) []byte { return flip(data) }) }, false},
		"the journal is cut":          {func() { edit(s.journal(), func(data []byte) []byte { return data[:len(data)-1-r.IntN(40)] }) }, false},
		"the journal's head is cut":   {func() { edit(s.journal(), func(data []byte) []byte { return data[:20] }) }, begunAgain},
		"the journal is empty":        {func() { edit(s.journal(), func([]byte) []byte { return nil }) }, begunAgain},
		"the journal is gone":         {func() { _ = os.Remove(s.journal()) }, begunAgain},
		"the journal is another text": {func() { edit(s.journal(), func([]byte) []byte { return bytes.Repeat([]byte("text "), 4000) }) }, begunAgain},
		"the journal is of another plan": {func() {
			edit(s.journal(), func(data []byte) []byte { data[30] ^= 1; return data })
		}, begunAgain},
		"the journal claims what is not there": {func() {
			edit(s.journal(), func(data []byte) []byte {
				return []byte(head(data) + journalLine("done "+large+" 00000000") + journalLine("done oci-layout 00000000") + journalLine("done ../../etc/passwd 00000000"))
			})
		}, false},
		"the journal claims more than there can be": {func() {
			edit(s.journal(), func(data []byte) []byte {
				return []byte(head(data) + journalLine("at "+large+" 9223372036854775807 00000000 AAAA") + journalLine("at "+large+" 18446744073709551616 0 ") + journalLine("at"))
			})
		}, false},
		"the journal has a state that is none": {func() {
			edit(s.journal(), func(data []byte) []byte { return []byte(head(data) + journalLine("at "+large+" 0 00000000 AAAA")) })
		}, false},
		"the journal has the state of other content": {func() {
			sum := []byte("sha\x03" + strings.Repeat("x", 32+64) + strings.Repeat("\x00", 8))
			before, _, _ := bytes.Cut(s.want, []byte(large))
			header := s.want[len(before):][:512]
			edit(s.partial(), func(data []byte) []byte { copy(data[len(before):], header); return data })
			edit(s.journal(), func(data []byte) []byte {
				crc := crc32.Checksum(header, crc32.MakeTable(crc32.Castagnoli))
				return []byte(head(data) + journalLine(fmt.Sprintf("at %s 0 %08x %s", large, crc, base64.StdEncoding.EncodeToString(sum))))
			})
		}, false},
	} {
		for _, after := range []int64{1, s.bytes / 3, s.bytes - 1} {
			_ = os.Remove(s.to())
			if s.cut(t, after, 3) == nil {
				continue
			}
			tc.change()
			kept, _, err := s.save(t, t.Context(), func(int64) {}, 3)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if kept == nil || (kept.Why != "") != tc.again && name != "a bit of the journal" {
				t.Errorf("%s: %+v is said", name, kept)
			}
			if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
				t.Errorf("%s: another archive, %v", name, err)
			}
			s.holds(t, "saved.tar")
		}
	}
}

// What is kept is of one content: another one begins again.
func TestArchiveOfOtherContentBeginsAgain(t *testing.T) {
	s := newSaving(t)
	_ = os.Remove(s.to())
	if s.cut(t, s.bytes/2, 2) == nil {
		t.Fatal("nothing is kept")
	}
	c := client(t, quick())
	other := newSample(t, "other")
	dst, err := c.Create(t.Context(), location(t, s.to()))
	if err != nil {
		t.Fatal(err)
	}
	var said []registry.Resumption
	dst.Resume.OnResume = func(r registry.Resumption) { said = append(said, r) }
	other.write(t, dst, "other")
	if err := dst.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || !strings.Contains(said[0].Why, "other content") {
		t.Errorf("%+v is said", said)
	}
	s.holds(t, "saved.tar")
	contractContent(t, open(t, c, s.to()), other)
}

// A partial file under the archive's name is a truncated archive.
func TestPartialArchiveIsNone(t *testing.T) {
	s := newSaving(t)
	_ = os.Remove(s.to())
	if s.cut(t, s.bytes/2, 2) == nil {
		t.Fatal("nothing is kept")
	}
	if err := os.Rename(s.partial(), s.to()); err != nil {
		t.Fatal(err)
	}
	_, err := client(t, quick()).Open(t.Context(), location(t, s.to()))
	var content *registry.ContentError
	if !errors.As(err, &content) || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("it opens: %v", err)
	}
}

// What one source has not got doesn't keep the rest from being saved, and all of
// it is told; nothing has the archive's name.
func TestArchiveOfHoles(t *testing.T) {
	s := newSaving(t)
	_ = os.Remove(s.to())
	lost, spoilt := s.layers[3], s.layers[len(s.layers)-1]
	path := func(p piece) string {
		return filepath.Join(s.from, "blobs", "sha256", p.desc.Digest.Encoded())
	}
	if err := os.Remove(path(lost)); err != nil {
		t.Fatal(err)
	}
	wrong := slices.Clone(spoilt.data)
	wrong[len(wrong)/2] ^= 1
	if err := os.WriteFile(path(spoilt), wrong, 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.save(t, t.Context(), func(int64) {}, 4)
	var unfinished *registry.UnfinishedError
	if !errors.As(err, &unfinished) || unfinished.Done.Objects != len(s.layers) { // of eleven blobs, with config and manifest
		t.Errorf("%+v, %v", unfinished, err)
	}
	for _, p := range []piece{lost, spoilt} {
		if !strings.Contains(fmt.Sprint(err), p.desc.Digest.String()) {
			t.Errorf("%s is not told: %v", p.desc.Digest, err)
		}
		if err := os.WriteFile(path(p), p.data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.holds(t, "saved.tar.partial", "saved.tar.partial.journal")
	_, read, err := s.save(t, t.Context(), func(int64) {}, 4)
	if want := lost.desc.Size + spoilt.desc.Size; err != nil || read != want {
		t.Errorf("%d bytes are read, want %d: %v", read, want, err)
	}
	if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
		t.Errorf("another archive, %v", err)
	}
}

// An archive that is there already, whole, is read and not written; any other
// file under its name is replaced.
func TestArchiveThatIsThere(t *testing.T) {
	s := newSaving(t)
	before, err := os.Stat(s.to())
	if err != nil {
		t.Fatal(err)
	}
	if _, read, err := s.save(t, t.Context(), func(int64) {}, 4); err != nil || read != 0 {
		t.Errorf("%d bytes are read, %v", read, err)
	}
	if err := os.WriteFile(s.journal(), []byte("of a writer that was killed after the rename"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.save(t, t.Context(), func(int64) {}, 4); err != nil {
		t.Error(err)
	}
	if now, err := os.Stat(s.to()); err != nil || !os.SameFile(before, now) {
		t.Errorf("it was written again, %v", err)
	}
	s.holds(t, "saved.tar")
	r := rand.New(rand.NewPCG(7, 8))
	for at := 0; at < len(s.want); at += len(s.want) / 40 {
		data := slices.Clone(s.want)
		data[at+r.IntN(min(500, len(data)-at))] ^= 1
		if err := os.WriteFile(s.to(), data, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.save(t, t.Context(), func(int64) {}, 4); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
			t.Errorf("byte %d was another and it stays so, %v", at, err)
		}
	}
}
