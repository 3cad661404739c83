package ops

import (
	"bytes"
	"context"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/projections/history"
)

func TestStatementsEndAtTheirSemicolon(t *testing.T) {
	for text, want := range map[string][]string{
		"SELECT 1;":                    {"SELECT 1", ""},
		"SELECT 1; SELECT 2":           {"SELECT 1", " SELECT 2"},
		`SELECT ';', ";", 'a\';';x`:    {`SELECT ';', ";", 'a\';'`, "x"},
		"SELECT 1 -- a; b\n;":          {"SELECT 1 -- a; b\n", ""},
		"SELECT /* ; */ 1; -- the end": {"SELECT /* ; */ 1", " -- the end"},
		"SELECT 'open;":                {"SELECT 'open;"},
		"SELECT 1 /* open;":            {"SELECT 1 /* open;"},
		"-- open;":                     {"-- open;"},
		"":                             {""},
	} {
		statements, rest := splitStatements(text)
		if got := append(statements, rest); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

type typist struct {
	lines   []string
	prompts []string
	bytes.Buffer
}

func (s *typist) SetPrompt(p string) { s.prompts = append(s.prompts, strings.TrimSpace(p)) }

func (s *typist) ReadLine() (string, error) {
	if len(s.lines) == 0 {
		return "", io.EOF
	}
	line := s.lines[0]
	s.lines = s.lines[1:]
	return line, nil
}

func TestShellAsksForWholeStatements(t *testing.T) {
	screen := &typist{lines: []string{"", "SELECT", "  1", `\q`}}
	session := SQLSession{Out: screen, Notes: screen}
	if err := session.converse(context.Background(), screen); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(screen.prompts, " "); got != "lumenhook> ...> ...> ...>" {
		t.Errorf("the prompts are %s", got)
	}
	if got := shortcut(`\d attempts`); !strings.Contains(got, "table = 'attempts'") {
		t.Errorf(`\d gives %s`, got)
	}
}

// Cells and column names must not send commands to a terminal.
func TestAnAnswerGivesATerminalNoCommands(t *testing.T) {
	const hostile = "x\u009b2J\u202e\u200b"
	answer := history.Answer{Columns: []string{hostile}, Rows: [][]any{{hostile}}}
	for name, write := range SQLFormats {
		var out bytes.Buffer
		if err := write(cli.Plain(&out), answer); err != nil {
			t.Fatal(err)
		}
		if raw := strings.ContainsAny(out.String(), "\u009b\u202e\u200b"); raw != (name == "csv") {
			t.Errorf("%s: %q", name, &out)
		}
	}
	var out bytes.Buffer
	err := writeTable(&out, answer)
	if err != nil || strings.Count(out.String(), `x\u009b2J\u202e`) != 2 {
		t.Errorf("a table is %q, %v", &out, err)
	}
}

// DESCRIBE must print complete comments, and a definition must keep its line breaks.
func TestASchemaIsNeverCut(t *testing.T) {
	long := strings.Repeat("x", 100)
	for statement, whole := range map[string]bool{
		"DESCRIBE attempts": true, " show create table attempts": true, "SELECT 1": false,
		shortcut(`\d attempts`): true, shortcut(`\t`): true,
	} {
		if aboutSchema.MatchString(statement) != whole {
			t.Errorf("%q is about the schema: %t", statement, !whole)
		}
	}
	var out bytes.Buffer
	err := writeSchema(&out, history.Answer{
		Columns: []string{"name", "comment"}, Rows: [][]any{{"a", long}},
	})
	if err != nil || !strings.Contains(out.String(), long) {
		t.Errorf("a long comment is %q, %v", &out, err)
	}
	out.Reset()
	err = writeVertical(&out, history.Answer{Columns: []string{"a", "b"}, Rows: [][]any{{nil, 1}}})
	if err != nil || out.String() != "Row 1:\na: NULL\nb: 1\n\n" {
		t.Errorf("a row is %q, %v", &out, err)
	}
	out.Reset()
	err = writeSchema(&out, history.Answer{
		Columns: []string{"statement"}, Rows: [][]any{{"CREATE\nTABLE " + long}},
	})
	if err != nil || out.String() != "Row 1:\nstatement: CREATE\nTABLE "+long+"\n\n" {
		t.Errorf("a definition is %q, %v", &out, err)
	}
}

// A row of hashes must be a single line of CSV. Other text that isn't UTF-8 must not be taken for a
// hash.
func TestHashesAreHex(t *testing.T) {
	hash := strings.Repeat("\n\xff", 16)
	answer := history.Answer{
		Columns: []string{"hash", "hashes", "body", "id"},
		Rows:    [][]any{{hash, hash + hash, "cut\xe2", strings.Repeat("0", 32)}, {"", nil, "", ""}},
	}
	showHashes(answer)
	hex := strings.Repeat("0aff", 16)
	want := [][]any{{hex, hex + hex, "cut\xe2", strings.Repeat("0", 32)}, {"", nil, "", ""}}
	if !reflect.DeepEqual(answer.Rows, want) {
		t.Errorf("the rows are %q", answer.Rows)
	}
}
