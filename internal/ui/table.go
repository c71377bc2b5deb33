package ui

import (
	"io"
	"strings"
	"text/tabwriter"
)

// A Table writes rows with aligned columns.
type Table struct{ w *tabwriter.Writer }

// NewTable returns a table that writes to w when it is flushed.
func NewTable(w io.Writer) *Table {
	return &Table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
}

// Row adds a row; empty cells at its end are left out.
func (t *Table) Row(cells ...string) {
	for i, cell := range cells {
		cells[i] = clean(strings.NewReplacer("\t", " ", "\n", " ").Replace(cell))
	}
	_, _ = io.WriteString(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t")+"\n") // Flush reports
}

// Flush writes what was added.
func (t *Table) Flush() error { return t.w.Flush() }
