package registry

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// What the journal says is safe is believed as long as nobody changed the file
// since.
func TestJournalIsBelieved(t *testing.T) {
	began := time.Unix(1_700_000_000, 5)
	for name, tc := range map[string]struct {
		kept    bool          // the writer has ended; else it was killed
		journal time.Duration // when the journal was changed last
		file    time.Duration // and the file
		first   bool          // what was noted before the sync is safe
	}{
		"killed":                       {false, 0, 100 * time.Millisecond, true},
		"killed, and changed later":    {false, 0, 3 * time.Second, false},
		"killed, journal written last": {false, 10 * time.Second, 0, true},
		"kept":                         {true, time.Hour, 0, true},
		"kept, and changed at once":    {true, 0, time.Nanosecond, false},
		"kept, and an older one":       {true, 0, -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			path, plan := filepath.Join(t.TempDir(), "journal"), digest.FromString("plan")
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, []byte("bytes"), 0o600); err != nil {
				t.Fatal(err)
			}
			j, _, _, err := openJournal(path, plan, nil)
			if err != nil {
				t.Fatal(err)
			}
			j.done("a", 1)
			lines := j.count()
			j.at("b", 7, 2, []byte("state"))
			j.safe(lines)
			if tc.kept {
				j.kept(began)
			}
			if err := j.close(); err != nil {
				t.Fatal(err)
			}
			for path, at := range map[string]time.Time{path: began.Add(tc.journal), file: began.Add(tc.file)} {
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			j, claims, why, err := openJournal(path, plan, info)
			if err != nil || why != "" {
				t.Fatal(why, err)
			}
			defer j.close()
			if a, b := claims["a"], claims["b"]; a.safe != tc.first || b.safe || !a.whole || b.content != 7 {
				t.Errorf("safe are %v and %v, want %v and no: %+v", a.safe, b.safe, tc.first, claims)
			}
			if j.count() < 3 {
				t.Errorf("%d lines were read", j.count())
			}
		})
	}
}

// A journal can't call safe what it has not said yet.
func TestJournalClaimsNothingAhead(t *testing.T) {
	path, plan := filepath.Join(t.TempDir(), "journal"), digest.FromString("plan")
	j, _, _, err := openJournal(path, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	j.safe(1000)
	j.done("a", 1)
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	j, claims, _, err := openJournal(path, plan, info)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if claims["a"].safe {
		t.Error("a line is safe that came later")
	}
}
