package registry

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

// A journal says how far a planned tar is written. It is a text of lines:
//
//	waybill journal 1 sha256:…        the plan that it is for
//	1c291ca3 done NAME SUM            a file of the tar is written
//	0f51b0a8 at NAME BYTES SUM STATE  so much of its content is
//	51d2c6e0 at * BYTES 0 STATE       so much of the tar is hashed
//	9a0c41d7 safe LINES               what so many lines before it say is on the disk
//	77e0b1f2 kept TIME                the writer has ended, and not with all; the file was changed then
//
// Each line but the first begins with the CRC-32C of the rest of it. SUM is the
// CRC-32C of what was written of the file, its header first; STATE is how far
// the computing of its digest is, in base64. A line is written after the bytes
// that it speaks of, but nobody waits for a disk: what a line says is held
// against the bytes when it is read, so that a line without its bytes, from
// before a power cut, costs no more than no line. What is safe, in a file that
// nobody changed since, need not be read again.
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
	line    int    // of the journal
	safe    bool   // it is on the disk, and need not be held against the bytes
}

// openJournal reads the journal at path and goes on with it; of is the file that
// it is about. Lines behind the first that is damaged are not believed. When there
// is no journal of that plan, a new one is begun, and why says what is there in its
// place.
func openJournal(path string, plan digest.Digest, of fs.FileInfo) (j *journal, claims map[string]claim, why string, err error) {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, nil, "", &ContentError{Ref: path, Reason: "is no regular file"}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, "", err
	}
	read, end, why := readJournal(file, plan)
	j, claims = &journal{file: file, lines: read.lines}, read.claims
	if !read.isOf(of, info) {
		for name, c := range claims {
			c.safe = false
			claims[name] = c
		}
	}
	if err = file.Truncate(end); err == nil {
		_, err = file.Seek(end, io.SeekStart)
	}
	if err == nil && end == 0 {
		_, err = io.WriteString(file, journalHead+plan.String()+"\n")
	}
	if err != nil {
		return nil, nil, "", errors.Join(err, file.Close())
	}
	return j, claims, why, nil
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
	lines  int   // that are good, behind the first
	safe   int   // so many of them are about what is on the disk
	kept   int64 // when the file was changed last, by whom wrote the last line; 0: it was killed
}

// killedWithin is how much later than its journal a file may have been written by
// somebody who was killed. File systems round to two seconds.
const killedWithin = 2 * time.Second

// isOf says whether nobody changed a file since the journal was written.
func (t journalText) isOf(file, journal fs.FileInfo) bool {
	switch {
	case file == nil || journal == nil:
		return false
	case t.kept != 0:
		return file.ModTime().UnixNano() == t.kept
	}
	return !file.ModTime().After(journal.ModTime().Add(killedWithin))
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
	for name, c := range text.claims {
		c.safe = c.line <= text.safe
		text.claims[name] = c
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
	case len(words) == 2 && words[0] == "safe":
		t.safe = int(min(number(words[1], 10, 63), uint64(t.lines))) //nolint:gosec // not more than there are
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

// done notes that a file of the tar is written.
func (j *journal) done(name string, sum uint32) {
	j.write(fmt.Sprintf("done %s %08x", name, sum))
}

// at notes how much of a file's content is written.
func (j *journal) at(name string, content int64, sum uint32, state []byte) {
	j.write(fmt.Sprintf("at %s %d %08x %s", name, content, sum, base64.StdEncoding.EncodeToString(state)))
}

// safe notes that what the first lines say is on the disk.
func (j *journal) safe(lines int) {
	j.write(fmt.Sprintf("safe %d", lines))
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
		_, j.err = io.WriteString(j.file, lineSum(line)+" "+line+"\n")
		j.lines++
	}
}

// close ends writing. What could not be written has to be done again, and nothing
// more follows from it.
func (j *journal) close() error { return j.file.Close() }
