package flags

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/registry"
)

// ParseSize reads a number of bytes as GNU split has it: 1000, 16M, 29G. K, M, G,
// T, P and E are powers of 1024, as are KiB, MiB and so on; KB, MB and so on are
// powers of 1000, and b is 512.
func ParseSize(s string) (int64, error) {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	unit, ok := sizeUnit(s[end:])
	if err != nil || !ok || n <= 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is no size; it is a number of bytes, or one with K, M, G or T (KB, MB, … count by 1000), as in 16M", s)
	}
	return n * unit, nil
}

// sizeUnit is what stands behind the number of a size.
func sizeUnit(s string) (int64, bool) {
	switch s {
	case "":
		return 1, true
	case "b":
		return 512, true
	}
	letter, rest := s[:1], s[1:]
	if letter == "k" || letter == "m" { // split takes these two small as well
		letter = strings.ToUpper(letter)
	}
	power := strings.Index("KMGTPE", letter) + 1
	base := int64(1024)
	switch {
	case power == 0:
		return 0, false
	case rest == "B":
		base = 1000
	case rest != "" && rest != "iB":
		return 0, false
	}
	unit := int64(1)
	for range power {
		unit *= base
	}
	return unit, true
}

// smallestChunk keeps a misread unit from making a request of every few bytes.
const smallestChunk = 64 << 10

// transferSettings reads the flags on how bytes move.
func transferSettings(c *cli.Context, s *registry.Settings) error {
	if s.MaxRetryWait <= 0 {
		return Usagef("--max-retry-wait %s: it is a time, as in 90s", s.MaxRetryWait)
	}
	if s.IdleTimeout <= 0 {
		return Usagef("--idle-timeout %s: it is a time, as in 90s", s.IdleTimeout)
	}
	if c.String("chunk-size") == "" {
		return nil
	}
	size, err := ParseSize(c.String("chunk-size"))
	if err != nil {
		return Usagef("--chunk-size: %v", err)
	}
	if size < smallestChunk {
		return Usagef("--chunk-size %s: at least 64K", c.String("chunk-size"))
	}
	s.ChunkSize = size
	return nil
}
