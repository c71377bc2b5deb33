package bundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumberWarnings(t *testing.T) {
	const text = `id: 356136738
big: 12345678901234567
tag: 20161216
quoted: "1e10"
hash: 1e10
list: [0123, "0123", {mode: 0644}]
base: &b 00
alias: *b
zero: 0
part: 0.5
nine: 0189
word: 0x
neg: -9007199254740993
edge: 9007199254740992
tagged: !!str 0123
lost: -12345678901234567890
`
	want := []Problem{
		{2, 6, "big", "12345678901234567 is above 2^53: a template that calculates with it loses digits; quote it if it is text"},
		{5, 7, "hash", "1e10 is read as the number 10000000000, as Helm does: quote it if it is text"},
		{6, 8, "list[0]", "0123 is read as the number 83, as Helm does: quote it if it is text"},
		{6, 29, "list[2].mode", "0644 is read as the number 420, as Helm does: quote it if it is text"},
		{7, 7, "base", "00 is read as the number 0, as Helm does: quote it if it is text"},
		{11, 7, "nine", "0189 is read as the number 189, as Helm does: quote it if it is text"},
		{13, 6, "neg", "-9007199254740993 is above 2^53: a template that calculates with it loses digits; quote it if it is text"},
		{16, 7, "lost", "-12345678901234567890 has more digits than a 64-bit integer holds and loses some, as in Helm: quote it if it is text"},
	}
	if diff := cmp.Diff(want, NumberWarnings([]byte(text))); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if got := NumberWarnings([]byte("a: [")); got != nil {
		t.Errorf("warnings of what does not parse: %v", got)
	}
}
