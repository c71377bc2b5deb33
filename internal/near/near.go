// Package near finds the word that somebody probably meant.
//
// It knows edit distance and nothing else; any room may use it. The one door
// is [Word].
package near

import (
	"sort"
	"strings"

	"github.com/xrash/smetrics"
)

// Word returns the entry of known that is closest to word, or "" when none is
// close enough to be what was meant. Case and the difference between '-' and
// '_' count for nothing. Among equals the first in alphabetical order wins.
func Word(word string, known []string) string {
	sorted := append([]string(nil), known...)
	sort.Strings(sorted)
	best, least := "", limit(word)+1
	for _, candidate := range sorted {
		if d := distance(word, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// limit is how many edits a word of this length may be away: one in three
// letters, and never so many that nothing of the word is left.
func limit(word string) int {
	switch n := len(word); {
	case n <= 1:
		return 0
	case n <= 3:
		return 1
	default:
		return (n + 2) / 3
	}
}

func distance(a, b string) int {
	a, b = fold(a), fold(b)
	if swapped(a, b) {
		return 1
	}
	return smetrics.WagnerFischer(a, b, 1, 1, 1)
}

// swapped says whether two neighbouring letters changed places, which is one
// slip of the fingers and two edits.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i+1 < len(a); i++ {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}

func fold(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "_", "-")
}
