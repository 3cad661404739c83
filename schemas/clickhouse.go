package schemas

import (
	"embed"
	"fmt"
	"strconv"
	text "strings" // this package declares a function named strings
)

//go:embed clickhouse/*.sql
var clickhouseFiles embed.FS

// Migration is a migration of the ClickHouse tables. Each statement must be safe to repeat, because
// there are no transactions. The query parameter "database" names the database.
type Migration struct {
	Version    uint32 // consecutive, from 1
	Name       string // the file's name
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

// statements splits a file into statements. A statement ends with a semicolon at the end of a line,
// and comments must be on lines of their own.
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
