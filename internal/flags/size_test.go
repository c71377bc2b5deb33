package flags_test

import (
	"testing"

	"waybill/internal/flags"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{"1": 1, "1000": 1000, "4K": 4096, "16M": 16 << 20, "29G": 29 << 30, "1T": 1 << 40,
		"16m": 16 << 20, "300MB": 300_000_000, "4KiB": 4096, "1kB": 1000, "2b": 1024, "7E": 7 << 60, "29GB": 29_000_000_000} {
		if got, err := flags.ParseSize(s); got != want || err != nil {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "M", "0", "-1", "1.5M", "16g", "16MBs", "16mi", "16µ", "4 K", "8E", "9999999T", "9223372036854775808"} {
		if got, err := flags.ParseSize(s); err == nil {
			t.Errorf("%q was read as %d", s, got)
		}
	}
}
