package ops

import (
	"context"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/printable"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/projections/history"
)

// SQLSession asks queries and prints answers.
type SQLSession struct {
	Console *history.Console
	Format  string    // one of SQLFormats
	Out     io.Writer // answers
	Notes   io.Writer // other output
	RowsMax int
	keys    keyboard // of the shell
}

// Read runs the queries typed at a terminal, or in a file.
func (s *SQLSession) Read(ctx context.Context, in io.Reader) error {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return s.shell(ctx, f)
	}
	return s.script(ctx, in)
}

// Ask asks one query; of none it does nothing.
func (s *SQLSession) Ask(ctx context.Context, statement string) error {
	if strings.Trim(statement, "; \t\r\n") == "" {
		return nil
	}
	answer, err := s.Console.Query(ctx, statement)
	if err != nil {
		return err
	}
	if name := describes.FindStringSubmatch(statement); name != nil && len(answer.Rows) == 0 {
		return fmt.Errorf("no table or view %s", name[1])
	}
	showHashes(answer)
	write := SQLFormats[s.Format]
	if s.Format == "table" && aboutSchema.MatchString(statement) {
		write = writeSchema
	}
	if err := write(s.Out, answer); err != nil {
		return err
	}
	if answer.Truncated {
		_, err = fmt.Fprintf(s.Notes, "only the first %d rows; --max-rows prints more\n", s.RowsMax)
	}
	return err
}

// WriteParquet has the ClickHouse of a run write an answer as a Parquet file, with all rows.
func WriteParquet(
	ctx context.Context, at *runfile.ClickHouse, statement string, timeMax time.Duration,
	out io.Writer,
) error {
	set := url.Values{
		"database":           {at.Database},
		"default_format":     {"Parquet"},
		"max_execution_time": {strconv.Itoa(int(timeMax.Seconds()))},
		"wait_end_of_query":  {"1"}, // otherwise an error could be in the middle of the file
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.HTTP+"/?"+set.Encode(),
		strings.NewReader(strings.TrimRight(strings.TrimSpace(statement), "; \n")))
	if err != nil {
		return err
	}
	req.SetBasicAuth(at.Reader.User, at.Reader.Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("cannot connect to ClickHouse: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(resp.Body, reasonMaxBytes))
		return fmt.Errorf("ClickHouse: %s", strings.TrimSpace(string(reason)))
	}
	_, err = io.Copy(out, resp.Body)
	return err
}

const reasonMaxBytes = 4 << 10

// scriptMaxBytes bounds the standard input.
const scriptMaxBytes = 1 << 20

// script runs the queries of a file, up to the first that fails.
func (s *SQLSession) script(ctx context.Context, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, scriptMaxBytes))
	if err != nil {
		return err
	}
	statements, rest := splitStatements(string(text))
	for _, statement := range append(statements, rest) {
		if err := s.Ask(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

const shellHelp = `A query ends with a semicolon. \q or Ctrl-D leaves, \t lists tables and views,
\d NAME describes one. Ctrl-C stops the query or drops what was typed. Arrow keys edit
and recall.
`

// shell asks a person at a terminal.
func (s *SQLSession) shell(ctx context.Context, in *os.File) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("taking over the terminal: %w", err)
	}
	defer term.Restore(int(in.Fd()), before)
	signal.Reset(os.Interrupt) // otherwise Ctrl-C would also end the program
	s.keys = keyboard{File: in, before: before}
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&s.keys, os.Stdout}, "lumenhook> ")
	if width, height, err := term.GetSize(int(in.Fd())); err == nil && width > 0 {
		_ = screen.SetSize(width, height)
	}
	s.Out, s.Notes = cli.Plain(screen), cli.Plain(screen)
	if _, err := io.WriteString(screen, shellHelp); err != nil {
		return err
	}
	return s.converse(ctx, screen)
}

// keyboard is a raw terminal, at which Ctrl-C drops what was typed.
type keyboard struct {
	*os.File
	before  *term.State // outside raw mode
	dropped bool        // Ctrl-C ended the line that is read next
}

func (k *keyboard) Read(p []byte) (int, error) {
	n, err := k.File.Read(p[:1])
	if n == 1 && p[0] == '\x03' {
		k.dropped = true
		n = copy(p, "\x05\x15\r") // Ctrl-E, Ctrl-U, Enter: an empty line
	}
	return n, err
}

// queryTyped asks a query outside raw mode, so that Ctrl-C is a signal, which stops the query.
func (s *SQLSession) queryTyped(ctx context.Context, statement string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	_ = term.Restore(int(s.keys.Fd()), s.keys.before)
	defer func() { _, _ = term.MakeRaw(int(s.keys.Fd())) }()
	err := s.Ask(ctx, statement)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// lineReader is a terminal with line editing.
type lineReader interface {
	ReadLine() (string, error)
	SetPrompt(string)
	io.Writer
}

func (s *SQLSession) converse(ctx context.Context, screen lineReader) error {
	typed := ""
	for ctx.Err() == nil {
		line, err := screen.ReadLine()
		if errors.Is(err, io.EOF) || typed == "" && strings.TrimSpace(line) == `\q` {
			return nil
		}
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return err
		}
		if s.keys.dropped {
			s.keys.dropped, typed, line = false, "", ""
		}
		if typed == "" {
			line = shortcut(line)
		}
		var statements []string
		statements, typed = splitStatements(typed + line + "\n")
		if strings.TrimSpace(typed) == "" {
			typed = ""
		}
		for _, statement := range statements {
			if err := s.queryTyped(ctx, statement); err != nil {
				fmt.Fprintln(s.Notes, err)
			}
		}
		prompt := "lumenhook> "
		if typed != "" {
			prompt = "       ...> "
		}
		screen.SetPrompt(prompt)
	}
	return nil
}

// shortcut writes out what begins with a backslash.
func shortcut(line string) string {
	command, name, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch command {
	case `\t`:
		return "SELECT name, comment FROM system.tables " +
			"WHERE database = currentDatabase() ORDER BY name;"
	case `\d`:
		table := strings.ReplaceAll(strings.TrimSpace(name), "'", "")
		return "SELECT name, type, comment FROM system.columns WHERE database = currentDatabase() " +
			"AND table = '" + table + "' ORDER BY position;"
	case `\h`, `\?`, "help":
		return "SELECT 'a query ends with a semicolon; \\\\t lists tables, " +
			"\\\\d NAME describes one, \\\\q leaves' AS help;"
	}
	return line
}

// splitStatements splits off complete statements. A semicolon in quotes or in a comment does not
// end one.
func splitStatements(text string) (statements []string, rest string) {
	begin := 0
	for i := 0; i < len(text); i++ {
		switch {
		case strings.IndexByte("'\"`", text[i]) >= 0:
			i = quoteEnd(text, i)
		case strings.HasPrefix(text[i:], "--"):
			if i = skipTo(text, i, "\n"); i >= len(text) {
				return statements, text[begin:]
			}
		case strings.HasPrefix(text[i:], "/*"):
			i = skipTo(text, i+2, "*/")
		case text[i] == ';':
			statements = append(statements, text[begin:i])
			begin = i + 1
		}
	}
	return statements, text[begin:]
}

// quoteEnd is where the quote that begins at i ends, or the text.
func quoteEnd(text string, i int) int {
	quote := text[i]
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case quote:
			return i
		}
	}
	return i
}

func skipTo(text string, i int, what string) int {
	at := strings.Index(text[min(i, len(text)):], what)
	if at < 0 {
		return len(text)
	}
	return i + at + len(what) - 1
}

// SQLFormat writes an answer.
type SQLFormat func(io.Writer, history.Answer) error

// SQLFormats are all there are, by their names.
var SQLFormats = map[string]SQLFormat{
	"table": writeTable, "vertical": writeVertical, "json": writeJSON, "csv": writeCSV,
}

const cellMaxRunes = 80 // of a table; other formats print all

// aboutSchema matches statements whose answers are never cut.
var aboutSchema = regexp.MustCompile(
	`(?i)^[\s;]*(DESC|DESCRIBE|SHOW|EXPLAIN|SELECT name, (type, )?comment FROM system)\b`)

// describes matches the query of \d, with the name.
var describes = regexp.MustCompile(`^SELECT name, type, comment FROM .* table = '(.*)' ORDER`)

// writeSchema prints a table, or, if a value has several lines, the values alone.
func writeSchema(w io.Writer, a history.Answer) error {
	for _, row := range a.Rows {
		if len(row) == 1 && strings.Contains(textOf(row[0]), "\n") {
			return writeVertical(w, a)
		}
	}
	return writeColumns(w, a, math.MaxInt)
}

// writeVertical prints each value on lines of its own.
func writeVertical(w io.Writer, a history.Answer) error {
	var text strings.Builder
	for n, row := range a.Rows {
		fmt.Fprintf(&text, "Row %d:\n", n+1)
		for i, v := range row {
			if v == nil {
				v = "NULL"
			}
			lines := strings.Split(textOf(v), "\n")
			for n, line := range lines {
				lines[n] = cell(line, math.MaxInt)
			}
			fmt.Fprintf(&text, "%s: %s\n", cell(a.Columns[i], math.MaxInt), strings.Join(lines, "\n"))
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

const hashBytes = 32

// showHashes writes columns of SHA-256 hashes, which ClickHouse stores as bytes, in hex.
func showHashes(a history.Answer) {
	for i := range a.Columns {
		hashes, binary := true, false
		for _, row := range a.Rows {
			text, is := row[i].(string)
			hashes = hashes && (is || row[i] == nil) &&
				(len(text) == 0 || len(text) == hashBytes || a.Columns[i] == "hashes")
			binary = binary || !utf8.ValidString(text)
		}
		for _, row := range a.Rows {
			if text, is := row[i].(string); is && hashes && binary {
				row[i] = hex.EncodeToString([]byte(text))
			}
		}
	}
}

// writeTable prints columns side by side.
func writeTable(w io.Writer, a history.Answer) error { return writeColumns(w, a, cellMaxRunes) }

func writeColumns(w io.Writer, a history.Answer, cellMax int) error {
	lines, formats, total := make([][]any, len(a.Rows)+1), make([]string, len(a.Columns)), 0
	for i, name := range a.Columns {
		width, align := 0, "-"
		if len(a.Rows) > 0 && isNumber(a.Rows[0][i]) {
			align = ""
		}
		lines[0] = append(lines[0], cell(name, cellMax))
		for n, row := range a.Rows {
			lines[n+1] = append(lines[n+1], cell(row[i], cellMax))
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

func cell(v any, maxRunes int) string {
	text := printable.Text(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(textOf(v), "\uFFFD")))
	if v == nil {
		return "NULL"
	}
	if utf8.RuneCountInString(text) > maxRunes {
		return string([]rune(text)[:maxRunes-1]) + "…"
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
