package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Row writes one line of a table.
func Row(w io.Writer, cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(w, "\t") // an error shows at the table's Flush
		}
		_, _ = fmt.Fprint(w, OneLine(cell))
	}
	_, _ = io.WriteString(w, "\n")
}

// OneLine formats a value as a cell: nil as a dash, and without control characters.
func OneLine(v any) string {
	text := fmt.Sprint(v)
	switch v := v.(type) {
	case *string:
		text = "-"
		if v != nil {
			text = *v
		}
	case *int:
		text = "-"
		if v != nil {
			text = fmt.Sprint(*v)
		}
	case *int64:
		text = "-"
		if v != nil {
			text = fmt.Sprint(*v)
		}
	case *time.Time:
		text = "-"
		if v != nil {
			text = v.UTC().Format(time.RFC3339)
		}
	case time.Time:
		text = v.UTC().Format(time.RFC3339)
	case []string:
		text = strings.Join(v, ",")
	}
	if text == "" {
		return "-"
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, text)
}
