package cli

import (
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
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
	t := table.NewWriter()
	t.SetStyle(plain)
	t.SuppressTrailingSpaces()
	header, configs := make(table.Row, len(columns)), make([]table.ColumnConfig, len(columns))
	for i, c := range columns {
		header[i] = c.Name
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignLeft, AlignHeader: text.AlignLeft}
		if c.Numbers {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.SetColumnConfigs(configs)
	t.AppendHeader(header)
	for _, cells := range rows {
		row := make(table.Row, len(cells))
		for i, cell := range cells {
			row[i] = cell
		}
		t.AppendRow(row)
	}
	_, err := io.WriteString(w, t.Render()+"\n")
	return err
}

// plain has no frame: two spaces between columns, a line below the names.
var plain = table.Style{
	Box: table.BoxStyle{
		MiddleHorizontal: "─",
		MiddleSeparator:  "──",
		MiddleVertical:   "  ",
	},
	Options: table.Options{SeparateColumns: true, SeparateHeader: true},
}
