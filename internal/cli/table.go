package cli

import (
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Column is one column of a table.
type Column struct {
	Name    string
	Numbers bool // aligned at the right
}

// WriteTable writes rows below the names of their columns. Widths are those of a terminal:
// an East Asian character takes two columns. Cells are written as they are: the caller
// removes control characters.
func WriteTable(w io.Writer, columns []Column, rows [][]string) error {
	header := make([]string, len(columns))
	widths := make([]int, len(columns))
	for i, c := range columns {
		header[i], widths[i] = c.Name, shownWidth(c.Name)
		for _, cells := range rows {
			widths[i] = max(widths[i], shownWidth(cells[i]))
		}
	}
	var text strings.Builder
	write := func(cells []string) {
		var line strings.Builder
		for i, cell := range cells {
			padding := strings.Repeat(" ", widths[i]-shownWidth(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if columns[i].Numbers {
				cell, padding = padding, cell
			}
			line.WriteString(cell + padding)
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	write(header)
	total := 2 * (len(columns) - 1)
	for _, one := range widths {
		total += one
	}
	text.WriteString(strings.Repeat("─", max(0, total)) + "\n")
	for _, cells := range rows {
		write(cells)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// shownWidth is how many columns of a terminal a text takes.
func shownWidth(text string) (columns int) {
	for _, r := range text {
		kind := width.LookupRune(r).Kind()
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf): // on the character before
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			columns += 2
		default:
			columns++
		}
	}
	return columns
}
