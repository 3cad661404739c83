package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/projections"
)

func newSQL() *cobra.Command {
	var (
		t      target
		format string
		cfg    projections.ConsoleConfig
	)
	c := &cobra.Command{
		Use:   `sql ["SELECT …"]`,
		Short: "Ask the history: one query, or a shell without one",
		Long: `Runs one query against the history in ClickHouse and prints its answer. Without
a query it reads them from standard input; on a terminal that is a shell with
line editing, in which a query ends with a semicolon. Nothing can be written.

  lumenhook sql "SELECT * FROM retry_ladder"
  lumenhook sql --format csv "SELECT * FROM attempts_per_minute" > minutes.csv
  lumenhook sql "SHOW TABLES"

Tables, views and twenty questions: docs/analytics.md.`,
		Args: cli.OptionalArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			write, known := answerFormats[format]
			if !known {
				return cli.Usage(fmt.Errorf("--format %q: must be table, json or csv", format))
			}
			if cfg.RowsMax < 1 || cfg.TimeMax < time.Second || cfg.TimeMax > 24*time.Hour {
				return cli.Usage(fmt.Errorf("--max-rows %d and --timeout %s: must be at least 1, and from 1s to 24h",
					cfg.RowsMax, cfg.TimeMax))
			}
			var err error
			if cfg.DSN, err = t.readerDSN(); err != nil {
				return err
			}
			console, err := projections.OpenConsole(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer console.Close()
			s := sqlSession{console: console, write: write, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), rowsMax: cfg.RowsMax}
			if len(args) == 1 {
				return s.ask(cmd.Context(), args[0])
			}
			if in, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) {
				return s.shell(cmd.Context(), in)
			}
			return s.script(cmd.Context(), cmd.InOrStdin())
		},
	}
	t.register(c.Flags())
	t.registerClickHouse(c.Flags())
	c.Flags().StringVar(&format, "format", "table", "table, json (a line for each row) or csv")
	c.Flags().IntVar(&cfg.RowsMax, "max-rows", 10_000, "rows to print at most")
	c.Flags().DurationVar(&cfg.TimeMax, "timeout", time.Minute, "how long a query may take")
	return c
}

// sqlSession asks queries and prints answers.
type sqlSession struct {
	console *projections.Console
	write   func(io.Writer, projections.Answer) error
	out     io.Writer
	notes   io.Writer
	rowsMax int
}

func (s *sqlSession) ask(ctx context.Context, statement string) error {
	if strings.Trim(statement, "; \t\r\n") == "" {
		return nil
	}
	answer, err := s.console.Query(ctx, statement)
	if err != nil {
		return err
	}
	if err := s.write(s.out, answer); err != nil {
		return err
	}
	if answer.Truncated {
		_, err = fmt.Fprintf(s.notes, "only the first %d rows; --max-rows prints more\n", s.rowsMax)
	}
	return err
}

// scriptMaxBytes bounds what is read from standard input.
const scriptMaxBytes = 1 << 20

// script runs the queries of a file, up to the first that fails.
func (s *sqlSession) script(ctx context.Context, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, scriptMaxBytes))
	if err != nil {
		return err
	}
	statements, rest := splitStatements(string(text))
	for _, statement := range append(statements, rest) {
		if err := s.ask(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// splitStatements takes whole statements off a text. A semicolon in quotes or in
// a comment ends none.
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

const shellHelp = `A query ends with a semicolon. \q or Ctrl-D leaves, \t lists tables and views,
\d NAME describes one, Ctrl-C drops what was typed. Arrow keys edit and recall.
`

// shell asks a person at a terminal.
func (s *sqlSession) shell(ctx context.Context, in *os.File) error {
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
	s.out, s.notes = screen, screen
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

func (s *sqlSession) converse(ctx context.Context, screen lineReader) error {
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
			if err := s.ask(ctx, statement); err != nil {
				fmt.Fprintln(screen, err)
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
		return "SELECT name, comment FROM system.tables WHERE database = currentDatabase() ORDER BY name;"
	case `\d`:
		return "SELECT name, type, comment FROM system.columns WHERE database = currentDatabase() AND table = '" + strings.ReplaceAll(strings.TrimSpace(name), "'", "") + "' ORDER BY position;"
	case `\h`, `\?`, "help":
		return "SELECT 'a query ends with a semicolon; \\\\t lists tables, \\\\d NAME describes one, \\\\q leaves' AS help;"
	}
	return line
}
