package registry

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"waybill/internal/disk"
)

var somePlan = digest.FromString("plan")

func openTestJournal(t *testing.T, path string, of disk.State) (*journal, map[string]claim) {
	t.Helper()
	j, claims, why, err := openJournal(path, somePlan, of)
	if err != nil || why != "" && why != noJournal {
		t.Fatal(why, err)
	}
	return j, claims
}

func changedAt(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return disk.StateOf(info).Changed
}

func closeJournal(t *testing.T, j *journal) {
	t.Helper()
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
}

// What the journal says is safe is believed of the file that it is of, as long as
// nobody changed that since.
func TestJournalIsBelieved(t *testing.T) {
	for name, tc := range map[string]struct {
		kept bool          // the writer has ended; else it was killed
		id   uint64        // of the file that is there; 7 is that which was written
		late time.Duration // how much later than the journal, or than it was when it was kept, it was changed
		safe bool          // what was noted before the sync
	}{
		"killed":                        {false, 7, 100 * time.Millisecond, true},
		"killed, and changed later":     {false, 7, time.Second, false},
		"killed, journal written last":  {false, 7, -time.Hour, true},
		"killed, and another file":      {false, 8, 0, false},
		"kept":                          {true, 7, 0, true},
		"kept, and changed at once":     {true, 7, time.Nanosecond, false},
		"kept, and an older one":        {true, 7, -time.Hour, false},
		"kept, and a copy of that time": {true, 8, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			kept := time.Unix(1_700_000_000, 5)
			j, _ := openTestJournal(t, path, disk.State{ID: 7})
			from := j.count()
			j.done("a", 1)
			to := j.count()
			j.at("b", 7, 2, []byte("state"))
			j.safe(from, to)
			if tc.kept {
				j.kept(kept)
			}
			closeJournal(t, j)
			at := changedAt(t, path)
			if tc.kept {
				at = kept
			}
			j, claims := openTestJournal(t, path, disk.State{ID: tc.id, Changed: at.Add(tc.late)})
			closeJournal(t, j)
			if a, b := claims["a"], claims["b"]; a.safe != tc.safe || b.safe || !a.whole || b.content != 7 {
				t.Errorf("safe are %v and %v, want %v and no: %+v", a.safe, b.safe, tc.safe, claims)
			}
			if tc.safe {
				return
			}
			// That it is not believed is not forgotten.
			j, claims = openTestJournal(t, path, disk.State{ID: tc.id, Changed: changedAt(t, path)})
			closeJournal(t, j)
			if claims["a"].safe {
				t.Error("it is believed the next time")
			}
		})
	}
}

// A run notes as safe what it wrote or read itself, and nothing that the one before
// has left.
func TestJournalCallsSafeWhatWasWrittenNow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	j, _ := openTestJournal(t, path, disk.State{ID: 7})
	j.done("before", 1)
	closeJournal(t, j)

	j, _ = openTestJournal(t, path, disk.State{ID: 7, Changed: changedAt(t, path)})
	behind := newBehindSync(file, j)
	j.done("now", 1)
	behind.wrote(syncStep)
	if err := behind.end(); err != nil {
		t.Fatal(err)
	}
	closeJournal(t, j)

	j, claims := openTestJournal(t, path, disk.State{ID: 7, Changed: changedAt(t, path)})
	closeJournal(t, j)
	if claims["before"].safe || !claims["now"].safe {
		t.Errorf("%+v", claims)
	}
}

// A journal can't call safe what it has not said yet.
func TestJournalClaimsNothingAhead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := openTestJournal(t, path, disk.State{ID: 7})
	j.safe(0, 1000)
	j.done("a", 1)
	closeJournal(t, j)
	j, claims := openTestJournal(t, path, disk.State{ID: 7, Changed: changedAt(t, path)})
	closeJournal(t, j)
	if claims["a"].safe {
		t.Error("a line is safe that came later")
	}
}
