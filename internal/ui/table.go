package ui

import (
	"bytes"
	"io"
	"strings"
	"text/tabwriter"
)

// A Table writes rows with aligned columns below a heading.
type Table struct {
	w       io.Writer
	aligned bytes.Buffer
	columns *tabwriter.Writer
	head    []string
	rows    int
}

// NewTable returns a table that writes to w when it is flushed. Without a row it
// writes nothing, the heading neither.
func NewTable(w io.Writer, head ...string) *Table {
	t := &Table{w: w, head: head}
	t.columns = tabwriter.NewWriter(&t.aligned, 0, 4, 2, ' ', 0)
	t.write(head)
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	t.rows++
	t.write(cells)
}

// write gives every row all columns, each ended by a tab: a column ends for the
// tabwriter where a row lacks it.
func (t *Table) write(cells []string) {
	var line strings.Builder
	for i := range max(len(cells), len(t.head)) {
		if i < len(cells) {
			line.WriteString(clean(strings.NewReplacer("\t", " ", "\n", " ").Replace(cells[i])))
		}
		line.WriteByte('\t')
	}
	_, _ = io.WriteString(t.columns, line.String()+"\n") // to memory
}

// Flush writes what was added, without spaces at the ends of lines.
func (t *Table) Flush() error {
	_ = t.columns.Flush() // to memory
	if t.rows == 0 {
		return nil
	}
	var out strings.Builder
	for line := range strings.Lines(t.aligned.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(t.w, out.String())
	return err
}
