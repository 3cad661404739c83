package ops

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/printable"
	"github.com/lumenhook/lumenhook/projections/history"
)

// SQLFormat writes an answer.
type SQLFormat func(io.Writer, history.Answer) error

// SQLFormats are all there are, by their names.
var SQLFormats = map[string]SQLFormat{"table": writeTable, "json": writeJSON, "csv": writeCSV}

const cellMaxRunes = 80 // of a table; json and csv print all

// writeTable prints columns side by side, for people.
func writeTable(w io.Writer, a history.Answer) error {
	lines, formats, total := make([][]any, len(a.Rows)+1), make([]string, len(a.Columns)), 0
	for i, name := range a.Columns {
		width, align := 0, "-"
		if len(a.Rows) > 0 && isNumber(a.Rows[0][i]) {
			align = ""
		}
		lines[0] = append(lines[0], cell(name))
		for n, row := range a.Rows {
			lines[n+1] = append(lines[n+1], cell(row[i]))
		}
		for _, cells := range lines {
			width = max(width, utf8.RuneCountInString(cells[i].(string)))
		}
		formats[i] = fmt.Sprintf("%%%s%ds", align, width)
		total += width
	}
	var text strings.Builder
	for n, cells := range lines {
		line := fmt.Sprintf(strings.Join(formats, "  "), cells...)
		text.WriteString(strings.TrimRight(line, " ") + "\n")
		if n == 0 {
			text.WriteString(strings.Repeat("─", total+2*max(0, len(formats)-1)) + "\n")
		}
	}
	noun := "rows"
	if len(a.Rows) == 1 {
		noun = "row"
	}
	_, err := fmt.Fprintf(w, "%s(%d %s)\n", text.String(), len(a.Rows), noun)
	return err
}

func isNumber(v any) bool {
	switch reflect.ValueOf(v).Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return true
	}
	return false
}

func cell(v any) string {
	text := printable.Text(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(textOf(v), "\uFFFD")))
	if v == nil {
		return "NULL"
	}
	if utf8.RuneCountInString(text) > cellMaxRunes {
		return string([]rune(text)[:cellMaxRunes-1]) + "…"
	}
	return text
}

// textOf writes a value as ClickHouse people expect it, times as ISO 8601.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case time.Time:
		return isoTime(v)
	case fmt.Stringer:
		return v.String()
	case float64, float32:
		return strings.TrimSuffix(fmt.Sprintf("%.6g", v), ".0")
	}
	if kind := reflect.ValueOf(v).Kind(); kind == reflect.Slice || kind == reflect.Map {
		data, err := json.Marshal(jsonValue(v))
		if err == nil {
			return string(data)
		}
	}
	return fmt.Sprint(v)
}

func isoTime(t time.Time) string {
	t = t.UTC()
	switch {
	case t.Nanosecond() != 0:
		return t.Format("2006-01-02T15:04:05.000Z")
	case t.Equal(t.Truncate(24 * time.Hour)):
		return t.Format("2006-01-02")
	}
	return t.Format("2006-01-02T15:04:05Z")
}

// writeJSON prints one object on a line for each row, its fields in the order of
// the columns.
func writeJSON(w io.Writer, a history.Answer) error {
	for _, row := range a.Rows {
		var line strings.Builder
		for i, v := range row {
			name, err := json.Marshal(a.Columns[i])
			if err != nil {
				return err
			}
			value, err := json.Marshal(jsonValue(v))
			if err != nil {
				return fmt.Errorf("writing the column %s: %w", a.Columns[i], err)
			}
			before := map[bool]string{true: "{", false: ","}[i == 0]
			line.WriteString(before + string(name) + ":" + string(value))
		}
		if _, err := fmt.Fprintln(w, line.String()+"}"); err != nil {
			return err
		}
	}
	return nil
}

// jsonValue makes times and decimals texts, as the API has them.
func jsonValue(v any) any {
	switch v := v.(type) {
	case nil, bool, string:
		return v
	case []byte:
		return string(v)
	case time.Time:
		return isoTime(v)
	case fmt.Stringer:
		return v.String()
	}
	value := reflect.ValueOf(v)
	if value.Kind() == reflect.Slice {
		list := make([]any, value.Len())
		for i := range list {
			list[i] = jsonValue(value.Index(i).Interface())
		}
		return list
	}
	return v
}

func writeCSV(w io.Writer, a history.Answer) error {
	out := csv.NewWriter(cli.Exact(w))
	if err := out.Write(a.Columns); err != nil {
		return err
	}
	for _, row := range a.Rows {
		texts := make([]string, len(row))
		for i, v := range row {
			texts[i] = textOf(v)
		}
		if err := out.Write(texts); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
