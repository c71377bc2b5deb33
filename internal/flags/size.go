package flags

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/registry"
)

// ParseSize reads a number of bytes as GNU split has it: 1000, 16M, 29G, where K,
// M, G and T are powers of 1024.
func ParseSize(s string) (int64, error) {
	number, shift := s, 0
	if s != "" {
		if i := strings.IndexByte("KMGT", s[len(s)-1]); i >= 0 {
			number, shift = s[:len(s)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is no size; it is a number of bytes, or one with K, M, G or T, as in 16M", s)
	}
	return n << shift, nil
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
