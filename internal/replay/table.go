package replay

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table is a text in columns.
type table struct {
	columns []column
	rows    [][]string
}

type column struct {
	title string
	right bool // aligned, as numbers are
}

// WriteTo writes the table with its titles.
func (t *table) WriteTo(out io.Writer) (int64, error) {
	titles := make([]string, len(t.columns))
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		titles[i], widths[i] = c.title, utf8.RuneCountInString(c.title)
	}
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	written, err := int64(0), error(nil)
	for row := -1; row < len(t.rows) && err == nil; row++ {
		cells := titles
		if row >= 0 {
			cells = t.rows[row]
		}
		var n int
		n, err = io.WriteString(out, t.format(cells, widths))
		written += int64(n)
	}
	return written, err
}

// format returns one row as a line.
func (t *table) format(cells []string, widths []int) string {
	const gap = "  "
	var line strings.Builder
	for i, cell := range cells {
		padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if t.columns[i].right {
			line.WriteString(padding + cell + gap)
		} else {
			line.WriteString(cell + padding + gap)
		}
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}
