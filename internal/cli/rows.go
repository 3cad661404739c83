package cli

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/internal/printable"
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

// ShowFields prints the fields of a struct, one per line, each by its JSON name in words. It leaves
// out what JSON leaves out, and the fields that are named.
func ShowFields(w io.Writer, of any, except ...string) {
	v := reflect.ValueOf(of)
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" || slices.Contains(except, name) {
			continue
		}
		value := v.FieldByIndex(f.Index)
		if value.IsZero() && strings.HasPrefix(options, "omit") {
			continue
		}
		words := capitals.ReplaceAllStringFunc(name, func(c string) string {
			return " " + strings.ToLower(c)
		})
		Row(w, words, value.Interface())
	}
}

// OneLine formats a value as a cell: a pointer as what it points to, nil as a
// dash, on one line, and with [printable.Text].
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
	default:
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
			cells := make([]string, list.Len())
			for i := range cells {
				cells[i] = OneLine(list.Index(i).Interface())
			}
			text = strings.Join(cells, ",")
		}
	}
	if text == "" {
		return "-"
	}
	return printable.Text(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, text))
}
