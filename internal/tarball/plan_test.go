package tarball_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"waybill/internal/tarball"
)

// What is written at its planned places is the tar that a writer makes from the
// first byte to the last.
func TestPlanIsTheTar(t *testing.T) {
	contents := map[string]string{"a": "", "b/c": "x", "b/d": strings.Repeat("y", 511), "e": strings.Repeat("z", 512), "f": strings.Repeat("w", 1300)}
	names := []string{"f", "a", "b/d", "e", "b/c"}
	var plan tarball.Plan
	var streamed bytes.Buffer
	w := tar.NewWriter(&streamed)
	for _, name := range names {
		if _, err := plan.Add(name, int64(len(contents[name]))); err != nil {
			t.Fatal(err)
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(contents[name])), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, contents[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	placed := make([]byte, plan.Size())
	for _, f := range plan.Files() {
		header, err := tarball.Header(f.Name, f.Size)
		if err != nil {
			t.Fatal(err)
		}
		copy(placed[f.Header:], header)
		copy(placed[f.Offset:], contents[f.Name])
	}
	if !bytes.Equal(placed, streamed.Bytes()) {
		t.Errorf("%d bytes at their places are not the %d that are streamed", len(placed), streamed.Len())
	}
	if plan.Trailer()+1024 != plan.Size() {
		t.Errorf("the mark at the end begins at %d of %d", plan.Trailer(), plan.Size())
	}
}

// From 8 GiB on a size needs a PAX record; every offset behind it still holds,
// as a reader of tars finds them. Nothing of the content is there to read.
func TestPlanOfLargeFiles(t *testing.T) {
	const large = 8 << 30
	var plan tarball.Plan
	sizes := map[string]int64{"before": 7, "just below": large - 1, "large": large, "odd": large + 1, "after": 3}
	for _, name := range []string{"before", "just below", "large", "odd", "after"} {
		if _, err := plan.Add(name, sizes[name]); err != nil {
			t.Fatal(err)
		}
	}
	r := tar.NewReader(&sparse{plan: &plan})
	for _, f := range plan.Files() {
		h, err := r.Next()
		if err != nil || h.Name != f.Name || h.Size != f.Size {
			t.Fatalf("%+v, %v; want %+v", h, err, f)
		}
		if want := map[bool]int64{false: 512, true: 1536}[f.Size >= large]; f.Offset-f.Header != want {
			t.Errorf("the header of %s has %d bytes, want %d", f.Name, f.Offset-f.Header, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last file: %v", err)
	}
}

// sparse is a planned tar with nothing but zeros in its files. A reader seeks
// over them.
type sparse struct {
	plan *tarball.Plan
	at   int64
}

func (s *sparse) Read(p []byte) (int, error) {
	if s.at >= s.plan.Size() {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.plan.Size()-s.at)]
	clear(p)
	for _, f := range s.plan.Files() {
		if s.at >= f.Header && s.at < f.Offset {
			header, err := tarball.Header(f.Name, f.Size)
			if err != nil {
				return 0, err
			}
			p = p[:min(int64(len(p)), f.Offset-s.at)]
			copy(p, header[s.at-f.Header:])
		}
	}
	s.at += int64(len(p))
	return len(p), nil
}

func (s *sparse) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.plan.Size()
	}
	s.at = offset
	return offset, nil
}

// A name that USTAR can't hold is an error and no other header.
func TestPlanRefusesNames(t *testing.T) {
	var plan tarball.Plan
	if _, err := plan.Add(strings.Repeat("n", 300), 1); err == nil || plan.Size() != 1024 {
		t.Errorf("%v, and the plan has %d bytes", err, plan.Size())
	}
}
