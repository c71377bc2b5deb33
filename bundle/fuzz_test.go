package bundle

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seeds are documents of every kind, and the shapes that trouble YAML readers.
func seeds(f *testing.F) {
	f.Helper()
	for _, text := range []string{
		siteText, head + component, "apiVersion: waybill/v1\nkind: Policy\nkeys: [a]\n",
		"a: &a [*a]\n", "<<: *x\n", "<<: [{a: 1}, {b: 2}]\n", "? [a]\n: b\n", "a: |\n  b\n c", "%YAML 1.1\n---\na: b\n...\n",
		"- - - -\n", "{a: {a: {a: }}}", "a: !!binary x\nb: .nan\nc: 2001-01-01\n", "\ufeffa: b\n", "a: \"\\x00\"\n", "yes: no\n~: 1\n",
	} {
		f.Add([]byte(text))
	}
}

// Whatever the bytes, a parse function returns a document or a FileError, and
// every problem has words.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := ParseRelease("r", data)
		checkFileError(t, err)
		_, err = ParseSite("s", data)
		checkFileError(t, err)
		_, err = ParsePolicy("p", data)
		checkFileError(t, err)
		_, err = ParseValues("v", data)
		checkFileError(t, err)
	})
}

// A lock that is read can be written, and what is written reads as the same.
func FuzzLock(f *testing.F) {
	f.Add([]byte("apiVersion: waybill/v1\nkind: Lock\npacked: charts\nrelease: {name: a, version: 1.0.0}\ncharts: []\n"))
	f.Add([]byte("apiVersion: waybill/v1\nkind: Lock\npacked: charts\nrelease: {name: a, version: 1.0.0}\ncharts: []\nimages: [{digest: 'sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb', mediaType: \"a\\n\", size: 1, references: ['- x', '']}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lock, err := ParseLock("l", data)
		checkFileError(t, err)
		if err != nil {
			return
		}
		first, err := lock.Encode()
		if err != nil {
			checkFileError(t, err)
			return
		}
		again, err := ParseLock("l", first)
		if err != nil {
			t.Fatalf("written lock does not read: %v\n%s", err, first)
		}
		second, err := again.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(first), string(second)); diff != "" {
			t.Errorf("written twice the lock differs:\n%s", diff)
		}
	})
}

func checkFileError(t *testing.T, err error) {
	t.Helper()
	var bad *FileError
	if err == nil {
		return
	}
	if !errors.As(err, &bad) || len(bad.Problems) == 0 {
		t.Fatalf("error is %T %v, want a FileError with problems", err, err)
	}
	for _, p := range bad.Problems {
		if p.Message == "" || p.Line < 0 {
			t.Errorf("problem is %+v", p)
		}
	}
}
