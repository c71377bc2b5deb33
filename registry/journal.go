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

	"github.com/opencontainers/go-digest"
)

// A journal says how far a planned tar is written. It is a text of lines:
//
//	waybill journal 1 sha256:…        the plan that it is for
//	1c291ca3 done NAME SUM            a file of the tar is written
//	0f51b0a8 at NAME BYTES SUM STATE  so much of its content is
//	51d2c6e0 at * BYTES 0 STATE       so much of the tar is hashed
//
// Each line but the first begins with the CRC-32C of the rest of it. SUM is the
// CRC-32C of what was written of the file, its header first; STATE is how far
// the computing of its digest is, in base64. A line is written after the bytes
// that it speaks of, but nobody waits for a disk: what a line says is held
// against the bytes when it is read, so that a line without its bytes, from
// before a power cut, costs no more than no line.
type journal struct {
	mu   sync.Mutex
	file *os.File
	err  error // the first of writing
}

const journalHead = "waybill journal 1 "

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A claim is what a journal says of one file of the tar.
type claim struct {
	whole   bool
	content int64  // how many bytes of its content are there
	sum     uint32 // of what is there, with the header
	state   []byte // of the digest; of a part
}

// openJournal reads the journal at path and goes on with it. Lines behind the
// first that is damaged are not believed. When there is no journal of that plan,
// a new one is begun, and why says what is there in its place.
func openJournal(path string, plan digest.Digest) (j *journal, claims map[string]claim, why string, err error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, nil, "", &ContentError{Ref: path, Reason: "is no regular file"}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, "", err
	}
	j = &journal{file: file}
	claims, end, why := readClaims(file, plan)
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

// readClaims reads as far as the lines are good, and says how far that is.
func readClaims(r io.Reader, plan digest.Digest) (claims map[string]claim, end int64, why string) {
	lines := bufio.NewReaderSize(r, maxJournalLine)
	head, err := lines.ReadSlice('\n')
	switch {
	case len(head) == 0:
		return nil, 0, noJournal
	case err != nil || !strings.HasPrefix(string(head), journalHead):
		return nil, 0, damagedJournal
	case string(head) != journalHead+plan.String()+"\n":
		return nil, 0, otherJournal
	}
	claims, end = map[string]claim{}, int64(len(head))
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return claims, end, ""
		}
		name, c, ok := parseClaim(strings.TrimSuffix(string(line), "\n"))
		if !ok || len(claims) > maxEntries {
			return claims, end, ""
		}
		claims[name] = c
		end += int64(len(line))
	}
}

func parseClaim(line string) (name string, c claim, ok bool) {
	sum, rest, _ := strings.Cut(line, " ")
	if sum != lineSum(rest) {
		return "", c, false
	}
	words := strings.Split(rest, " ")
	number := func(s string, base, bits int) uint64 {
		n, err := strconv.ParseUint(s, base, bits)
		ok = ok && err == nil
		return n
	}
	ok = true
	switch {
	case len(words) == 3 && words[0] == "done":
		return words[1], claim{whole: true, sum: uint32(number(words[2], 16, 32))}, ok
	case len(words) == 5 && words[0] == "at":
		state, err := base64.StdEncoding.DecodeString(words[4])
		c = claim{content: int64(number(words[2], 10, 63)), sum: uint32(number(words[3], 16, 32)), state: state} //nolint:gosec // 63 bits
		return words[1], c, ok && err == nil
	}
	return "", c, false
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

func (j *journal) write(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		_, j.err = io.WriteString(j.file, lineSum(line)+" "+line+"\n")
	}
}

// close ends writing. What could not be written has to be done again, and nothing
// more follows from it.
func (j *journal) close() error { return j.file.Close() }
