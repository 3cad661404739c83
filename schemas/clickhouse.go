package schemas

import (
	"embed"
	"fmt"
	"strconv"
	text "strings" // this package has a function of that name
)

//go:embed clickhouse/*.sql
var clickhouseFiles embed.FS

// Migration is one migration of the tables in ClickHouse. Each statement may be repeated
// without effect: ClickHouse has no transactions over them. It names its database by the
// query parameter "database".
type Migration struct {
	Version    uint32 // 1 is the first; none is left out
	Name       string // of the file
	Statements []string
}

// ClickHouseMigrations returns all migrations in order.
func ClickHouseMigrations() []Migration {
	entries, err := clickhouseFiles.ReadDir("clickhouse") // sorted by name
	if err != nil {
		panic(fmt.Sprintf("schemas: reading the embedded migrations: %v", err))
	}
	migrations := make([]Migration, len(entries))
	for i, entry := range entries {
		content, err := clickhouseFiles.ReadFile("clickhouse/" + entry.Name())
		if err != nil {
			panic(fmt.Sprintf("schemas: reading the embedded migration %s: %v", entry.Name(), err))
		}
		number, _, _ := text.Cut(entry.Name(), "_")
		if version, err := strconv.Atoi(number); err != nil || version != i+1 {
			panic(fmt.Sprintf("schemas: the migration %s must be numbered %04d", entry.Name(), i+1))
		}
		migrations[i] = Migration{
			Version:    uint32(i + 1),
			Name:       entry.Name(),
			Statements: statements(string(content)),
		}
	}
	return migrations
}

// statements splits a file. A statement ends with a semicolon at the end of a line, and a comment
// is on a separate line.
func statements(file string) []string {
	var list []string
	var statement text.Builder
	for line := range text.Lines(file) {
		if text.HasPrefix(text.TrimSpace(line), "--") {
			continue
		}
		body, ends := text.CutSuffix(text.TrimRight(line, " \r\n"), ";")
		statement.WriteString(body + "\n")
		if ends {
			list = append(list, text.TrimSpace(statement.String()))
			statement.Reset()
		}
	}
	if rest := text.TrimSpace(statement.String()); rest != "" {
		list = append(list, rest)
	}
	return list
}
