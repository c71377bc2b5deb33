package ui

import (
	"bytes"
	"testing"
)

func TestTable(t *testing.T) {
	tests := map[string]struct {
		rows [][]string
		want string
	}{
		"no row":           {nil, ""},
		"aligned":          {[][]string{{"web", "done", ""}, {"database", "", "why"}}, "NAME      OUTCOME  REASON\nweb       done\ndatabase           why\n"},
		"one row, cleaned": {[][]string{{"a\tb\nc\x1b[2J"}}, "NAME            OUTCOME  REASON\na b c\\u001b[2J\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			table := NewTable(&out, "NAME", "OUTCOME", "REASON")
			for _, row := range tt.rows {
				table.Row(row...)
			}
			if err := table.Flush(); err != nil || out.String() != tt.want {
				t.Errorf("%v, wrote\n%swant\n%s", err, out.String(), tt.want)
			}
		})
	}
}
