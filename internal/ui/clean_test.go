package ui

import (
	"bytes"
	"errors"
	"testing"

	"github.com/opencontainers/go-digest"
)

// What strangers named cannot write to a terminal, nor look like a line of ours.
func TestPrintfEscapes(t *testing.T) {
	tests := map[string]struct {
		arg  any
		want string
	}{
		"plain":                 {"shop 1.0.0, für ☕", "shop 1.0.0, für ☕"},
		"a colour and a line":   {"\x1b[31mred\nroot: verified", `\u001b[31mred\nroot: verified`},
		"back over the line":    {"bad\rgood\b", `bad\rgood\u0008`},
		"control of 8 bits":     {"\u009b2J", `\u009b2J`},
		"bytes that are none":   {"\x9b2J\xff", `\x9b2J\xff`},
		"turned round":          {"a\u202egnp", `a\u202egnp`},
		"another end of a line": {"a\u2028b", `a\u2028b`},
		"hidden beyond 16 bits": {"a\U000e0041", `a\udb40\udc41`},
		"a type of its own":     {digest.Digest("sha256:\x1b"), `sha256:\u001b`},
		"an error":              {errors.New("one\ntwo"), `one\ntwo`},
		"a list":                {[]string{"a\n", "b"}, `[a\n b]`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if _, err := Printf(&out, "%v: %d\n", tt.arg, 3); err != nil || out.String() != tt.want+": 3\n" {
				t.Errorf("%v, wrote %q, want %q", err, out.String(), tt.want)
			}
		})
	}
}

func TestTextKeepsItsOwnLines(t *testing.T) {
	if got, want := Text("+ a\tb\n- \x1b[2Jc\n"), "+ a\tb\n- \\u001b[2Jc\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTalkKeepsWhatIsNamedOnItsLine(t *testing.T) {
	var out bytes.Buffer
	talk := NewTalk(&out, "bundle", TalkOptions{})
	talk.Sayf("pushed %s", "a\nbundle: verified\x1b[2J")
	talk.Warnf("%v", errors.Join(errors.New("one"), errors.New("two\x1b")))
	want := "bundle: pushed a\\nbundle: verified\\u001b[2J\nbundle: warning: one\nbundle:   two\\u001b\n"
	if out.String() != want {
		t.Errorf("wrote\n%swant\n%s", out.String(), want)
	}
}
