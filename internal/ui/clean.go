package ui

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printf writes text for people: the format as it is, and what is put into it on
// one line and without anything that a terminal would obey. Names, tags, titles
// and reasons come from strangers; with a line break of their own they could look
// like a line of ours.
func Printf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, onOneLine(args, false)...)
}

// Println writes one line of text for people, as [Printf] does.
func Println(w io.Writer, text any) (int, error) { return Printf(w, "%v\n", text) }

// Text is text of several lines as it can be shown to people.
func Text(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = clean(line)
	}
	return strings.Join(lines, "\n")
}

// onOneLine wraps what is put into a format. Errors may keep their line breaks:
// several errors at once are a line each.
func onOneLine(args []any, keepErrors bool) []any {
	wrapped := make([]any, len(args))
	for i, arg := range args {
		switch arg.(type) {
		case error:
			if wrapped[i] = arg; !keepErrors {
				wrapped[i] = oneLine{arg}
			}
		case int: // may be the width of another
			wrapped[i] = arg
		default:
			wrapped[i] = oneLine{arg}
		}
	}
	return wrapped
}

// oneLine formats what it holds, and escapes what came out.
type oneLine struct{ value any }

// Format implements [fmt.Formatter].
func (o oneLine) Format(f fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(f, verb), o.value)
	_, _ = io.WriteString(f, visible(text, func(rune) bool { return false }))
}

// clean escapes what could move the cursor of a terminal, hide text or turn it
// round: bytes from strangers reach error messages.
func clean(line string) string {
	return visible(line, func(r rune) bool { return r == '\t' })
}

// visible writes everything that can't be seen as Go and JSON do, and bytes that
// are no UTF-8 as \x and two digits.
func visible(text string, keep func(rune) bool) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case keep(r) || unicode.IsGraphic(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}
