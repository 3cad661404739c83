package cli

import (
	"fmt"
	"io"
	"reflect"
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

// OneLine formats a value as a cell: a pointer as what it points to, nil as a
// dash, and without control characters.
func OneLine(v any) string {
	if v == nil {
		return "-"
	}
	if pointer := reflect.ValueOf(v); pointer.Kind() == reflect.Pointer {
		if pointer.IsNil() {
			return "-"
		}
		_, says := v.(fmt.Stringer)
		pointee := pointer.Elem().Interface()
		if _, itself := pointee.(fmt.Stringer); itself || !says {
			return OneLine(pointee)
		}
	}
	text := fmt.Sprint(v)
	switch v := v.(type) {
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
