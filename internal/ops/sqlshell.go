package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/projections/history"
)

// SQLSession asks queries and prints answers.
type SQLSession struct {
	Console *history.Console
	Write   SQLFormat
	Out     io.Writer // answers
	Notes   io.Writer // other output
	RowsMax int
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
	if err := s.Write(s.Out, answer); err != nil {
		return err
	}
	if answer.Truncated {
		_, err = fmt.Fprintf(s.Notes, "only the first %d rows; --max-rows prints more\n", s.RowsMax)
	}
	return err
}

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
\d NAME describes one, Ctrl-C drops what was typed. Arrow keys edit and recall.
`

// shell asks a person at a terminal.
func (s *SQLSession) shell(ctx context.Context, in *os.File) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("taking over the terminal: %w", err)
	}
	defer term.Restore(int(in.Fd()), before)
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, os.Stdout}, "lumenhook> ")
	if width, height, err := term.GetSize(int(in.Fd())); err == nil {
		_ = screen.SetSize(width, height)
	}
	s.Out, s.Notes = cli.Plain(screen), cli.Plain(screen)
	if _, err := io.WriteString(screen, shellHelp); err != nil {
		return err
	}
	return s.converse(ctx, screen)
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
		if typed == "" {
			line = shortcut(line)
		}
		var statements []string
		statements, typed = splitStatements(typed + line + "\n")
		if strings.TrimSpace(typed) == "" {
			typed = ""
		}
		for _, statement := range statements {
			if err := s.Ask(ctx, statement); err != nil {
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
