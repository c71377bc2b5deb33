package disk

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
)

// What is read once is what is in the file, whether the system has it in its
// cache, has some of it, or nothing.
func TestReadOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a trial that can be repeated
	data := make([]byte, 5*readStep+777)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	path := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	size := int64(len(data))
	for _, span := range [][2]int64{{0, size}, {512, readStep}, {1, 1}, {4095, 2}, {readStep - 1, 2*readStep + 2}, {size - 5, 5}, {size, 0}, {3 * readStep, 2*readStep + 777}} {
		for range 2 { // what was found in the cache may be another part
			forget(t, file, r.Int64N(size))
			rc := ReadOnce(file, span[0], span[1])
			if err := iotest.TestReader(rc, data[span[0]:][:span[1]]); err != nil {
				t.Errorf("%v: %v", span, err)
			}
			if err := errors.Join(rc.Close(), rc.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A file that is cut off ends early.
func TestReadOnceOfShorterFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	want := bytes.Repeat([]byte("x"), 3*readStep+10)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, more := range []int64{1, 4096, 10 * readStep} {
		rc := ReadOnce(file, 7, int64(len(want))-7+more)
		got, err := io.ReadAll(rc)
		if err != nil || !bytes.Equal(got, want[7:]) {
			t.Errorf("%d bytes too many: %d bytes and %v", more, len(got), err)
		}
		if err := rc.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Who closes it early leaves nothing behind that reads on.
func TestReadOnceIsClosedEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 6*readStep), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for n := range int64(4) {
		rc := ReadOnce(file, 0, 6*readStep)
		if _, err := io.CopyN(io.Discard, rc, n*readStep/2); err != nil {
			t.Fatal(err)
		}
		if err := rc.Close(); err != nil {
			t.Error(err)
		}
		if _, err := rc.Read(make([]byte, 1)); err == nil {
			if _, isOnce := rc.(*onceReader); isOnce {
				t.Error("it is read after it was closed")
			}
		}
	}
}
