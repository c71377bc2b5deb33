package bundle

import (
	"strings"
	"testing"
	"time"
)

// Texts that would cost a parser all memory, or minutes, are refused cheaply.
func TestHostileNesting(t *testing.T) {
	const head = "apiVersion: waybill/v1\nkind: Release\nname: shop\nversion: 1.0.0\nx-a: "
	const tail = "\ncomponents:\n  - {name: web, chart: {path: c}, namespace: shop}\n"
	stairs := &strings.Builder{}
	for i := 1; i < 600; i++ {
		stairs.WriteString("\n" + strings.Repeat(" ", i) + "a:")
	}
	for name, text := range map[string]string{
		"lists in lists":             strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"lists never closed":         strings.Repeat("[", 9_000),
		"mappings in mappings":       strings.Repeat("{a: ", 50_000) + "1" + strings.Repeat("}", 50_000),
		"block lists in a line":      "\n  " + strings.Repeat("- ", 100_000) + "1",
		"keys of keys":               "\n  " + strings.Repeat("? ", 100_000) + "1",
		"deeper than is allowed":     strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"a staircase":                stairs.String(),
		"an anchor makes it deeper":  strings.Repeat("[", 300) + "&a " + strings.Repeat("[", 300) + strings.Repeat("]", 600),
		"aliases that nest one more": "[&a " + strings.Repeat("[", 300) + strings.Repeat("]", 300) + ", " + strings.Repeat("[", 300) + "*a" + strings.Repeat("]", 300) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, err := ParseRelease("release.yaml", []byte(head+text+tail))
			if !isA[*FileError](err) {
				t.Errorf("error is %v, want a FileError", err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestNestingWithinReason(t *testing.T) {
	deep := "x-a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100)
	if _, err := ParseRelease("release.yaml", []byte("apiVersion: waybill/v1\nkind: Release\nname: shop\n"+deep+"\ncomponents:\n  - {name: web, chart: {path: c}, namespace: shop}\n")); err != nil {
		t.Error(err)
	}
}
