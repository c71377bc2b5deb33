package registry

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"waybill/internal/disk"
)

// A journal says how far a planned tar is written. It is a text of lines:
//
//	waybill journal 1 sha256:…        the plan that it is for
//	1c291ca3 done NAME SUM            a file of the tar is written
//	0f51b0a8 at NAME BYTES SUM STATE  so much of its content is
//	51d2c6e0 at * BYTES 0 STATE       so much of the tar is hashed
//	9a0c41d7 safe FROM TO             what the lines behind FROM say, up to TO, is on the disk
//	77e0b1f2 kept TIME                the writer has ended, and not with all; the file was changed then
//	31f7a2c9 file ID                  it is of this file; nothing before is safe any more
//
// Each line but the first begins with the CRC-32C of the rest of it. SUM is the
// CRC-32C of what was written of the file, its header first; STATE is how far
// the computing of its digest is, in base64. A line is written after the bytes
// that it speaks of, but nobody waits for a disk: what a line says is held
// against the bytes when it is read, so that a line without its bytes, from
// before a power cut, costs no more than no line. What is safe, in a file that
// nobody changed since, need not be read again; when somebody did, that is noted
// first, so that it is not forgotten when the writing is interrupted once more. What
// was held against the bytes is said again, and can become safe.
type journal struct {
	mu    sync.Mutex
	file  *os.File
	lines int   // behind the first
	err   error // the first of writing
}

const journalHead = "waybill journal 1 "

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A claim is what a journal says of one file of the tar.
type claim struct {
	whole   bool
	content int64  // how many bytes of its content are there
	sum     uint32 // of what is there, with the header
	state   []byte // of the digest; of a part
	line    int    // of the journal, counted from 1 behind the first
	safe    bool   // it is on the disk, and need not be held against the bytes
}

// openJournal reads the journal at path and goes on with it; of is the file that
// it is about. Lines behind the first that is damaged are not believed. When there
// is no journal of that plan, a new one is begun, and why says what is there in its
// place.
func openJournal(path string, plan digest.Digest, of disk.State) (j *journal, claims map[string]claim, why string, err error) {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, nil, "", inTheWay(path)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, "", err
	}
	read, end, why := readJournal(file, plan)
	j = &journal{file: file, lines: read.lines}
	more := ""
	if end == 0 {
		more, err = journalHead+plan.String()+"\n", file.Truncate(0)
	}
	if end == 0 || info == nil || !read.isOf(of, disk.StateOf(info)) {
		read.ofFile(of.ID)
		more += lineOf(fmt.Sprintf("file %d", of.ID))
		j.lines++
	}
	if err == nil {
		err = goOnWith(file, end, more)
	}
	if err != nil {
		return nil, nil, "", errors.Join(err, file.Close())
	}
	return j, read.claims, why, nil
}

// goOnWith writes a text in the place of all that is behind the good lines.
func goOnWith(file *os.File, end int64, text string) error {
	if _, err := file.WriteAt([]byte(text), end); err != nil {
		return err
	}
	end += int64(len(text))
	if err := file.Truncate(end); err != nil {
		return err
	}
	_, err := file.Seek(end, io.SeekStart)
	return err
}

// Why a journal is of no use.
const (
	noJournal      = "there is no journal of it"
	otherJournal   = "it is of other content"
	damagedJournal = "its journal is damaged"
)

// wholeTar stands for the tar itself where a journal names its files.
const wholeTar = "*"

// maxJournalLine is more than any line has.
const maxJournalLine = 1 << 10

// journalText is what a journal says.
type journalText struct {
	claims map[string]claim
	lines  int    // that are good, behind the first
	file   uint64 // that it is of
	kept   int64  // when the file was changed last, by whom wrote the last line; 0: it was killed
}

// killedWithin is how much later than its journal a file may have been changed by
// the writer itself, when it was killed. One that is slower is read again.
const killedWithin = 500 * time.Millisecond

// isOf says whether it is of that file, and nobody changed it since the journal was
// written.
func (t journalText) isOf(file, journal disk.State) bool {
	switch {
	case t.file != file.ID:
		return false
	case t.kept != 0:
		return file.Changed.UnixNano() == t.kept
	}
	return !file.Changed.After(journal.Changed.Add(killedWithin))
}

// safe notes that what some lines say is on the disk.
func (t *journalText) safe(from, to int) {
	for name, c := range t.claims {
		if c.safe = c.safe || from < c.line && c.line <= to; c.safe {
			t.claims[name] = c
		}
	}
}

// ofFile notes whose journal it is from here on. What was safe was so in another
// file, or in one that somebody changed.
func (t *journalText) ofFile(id uint64) {
	t.file = id
	for name, c := range t.claims {
		c.safe = false
		t.claims[name] = c
	}
}

// readJournal reads as far as the lines are good, and says how far that is.
func readJournal(r io.Reader, plan digest.Digest) (text journalText, end int64, why string) {
	lines := bufio.NewReaderSize(r, maxJournalLine)
	head, err := lines.ReadSlice('\n')
	switch {
	case len(head) == 0:
		return text, 0, noJournal
	case err != nil || !strings.HasPrefix(string(head), journalHead):
		return text, 0, damagedJournal
	case string(head) != journalHead+plan.String()+"\n":
		return text, 0, otherJournal
	}
	text.claims, end = map[string]claim{}, int64(len(head))
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil || !text.add(strings.TrimSuffix(string(line), "\n")) {
			break
		}
		end += int64(len(line))
	}
	return text, end, ""
}

// add takes a line; false for one that is not good.
func (t *journalText) add(line string) bool {
	sum, rest, _ := strings.Cut(line, " ")
	if sum != lineSum(rest) || len(t.claims) > maxEntries {
		return false
	}
	words, ok := strings.Split(rest, " "), true
	number := func(s string, base, bits int) uint64 {
		n, err := strconv.ParseUint(s, base, bits)
		ok = ok && err == nil
		return n
	}
	kept := int64(0)
	switch {
	case len(words) == 3 && words[0] == "safe":
		most := uint64(t.lines)                                                                        //nolint:gosec // they were counted
		from, to := int(min(number(words[1], 10, 63), most)), int(min(number(words[2], 10, 63), most)) //nolint:gosec // not more than there are
		if ok {
			t.safe(from, to)
		}
	case len(words) == 2 && words[0] == "file":
		if id := number(words[1], 10, 64); ok {
			t.ofFile(id)
		}
	case len(words) == 2 && words[0] == "kept":
		kept = int64(number(words[1], 10, 63)) //nolint:gosec // 63 bits
	case len(words) == 3 && words[0] == "done":
		c := claim{whole: true, sum: uint32(number(words[2], 16, 32)), line: t.lines + 1}
		if ok {
			t.claims[words[1]] = c
		}
	case len(words) == 5 && words[0] == "at":
		state, err := base64.StdEncoding.DecodeString(words[4])
		c := claim{content: int64(number(words[2], 10, 63)), sum: uint32(number(words[3], 16, 32)), state: state, line: t.lines + 1} //nolint:gosec // 63 bits
		if ok = ok && err == nil; ok {
			t.claims[words[1]] = c
		}
	default:
		return false
	}
	if ok {
		t.lines++
		t.kept = kept
	}
	return ok
}

func lineSum(line string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(line), castagnoli))
}

func lineOf(text string) string { return lineSum(text) + " " + text + "\n" }

// done notes that a file of the tar is written.
func (j *journal) done(name string, sum uint32) {
	j.write(fmt.Sprintf("done %s %08x", name, sum))
}

// at notes how much of a file's content is written.
func (j *journal) at(name string, content int64, sum uint32, state []byte) {
	j.write(fmt.Sprintf("at %s %d %08x %s", name, content, sum, base64.StdEncoding.EncodeToString(state)))
}

// safe notes that what the lines behind one, up to another, say is on the disk.
func (j *journal) safe(from, to int) {
	j.write(fmt.Sprintf("safe %d %d", from, to))
}

// kept notes when the file was changed last.
func (j *journal) kept(at time.Time) {
	j.write(fmt.Sprintf("kept %d", at.UnixNano()))
}

// count is how many lines there are.
func (j *journal) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines
}

func (j *journal) write(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		_, j.err = io.WriteString(j.file, lineOf(line))
		j.lines++
	}
}

// close ends writing. What could not be written has to be done again, and nothing
// more follows from it.
func (j *journal) close() error { return j.file.Close() }
