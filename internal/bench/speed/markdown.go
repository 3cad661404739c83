package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// marks are around the table in a document.
const (
	markBegin = "<!-- made by make bench: begin -->"
	markEnd   = "<!-- made by make bench: end -->"
)

// asMarkdown is the table, what explains it, the machine and the settings.
func (r *results) asMarkdown() string {
	var b strings.Builder
	rows := r.rows()
	fmt.Fprintf(&b, "Measured %s on %s. %s.\n\n", r.journal.sitting[:len("2006-01-02")], r.machine(),
		capitalized(r.settings()))
	fmt.Fprintln(&b, "| row | aim | min, median, max | floor | ratio | |\n|---|---|---|---|---|---|")
	r.markdownRows(&b, rows, false)
	for _, rec := range r.journal.records {
		if rec.Fault != "" {
			reason, _, _ := strings.Cut(rec.Fault, "\n")
			fmt.Fprintf(&b, "| %s, repetition %d | | not measured: %s | | | |\n", cell(rec.Step),
				rec.Repetition, cell(reason))
		}
	}
	fmt.Fprintln(&b, "\nBeside it:\n\n| row | | min, median, max | floor | ratio |\n"+
		"|---|---|---|---|---|")
	r.markdownRows(&b, rows, true)
	return b.String()
}

func capitalized(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// cell is text that does not end a table's cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

func (r *results) markdownRows(b *strings.Builder, rows []row, aside bool) {
	for _, row := range rows {
		if row.Aside != aside {
			continue
		}
		floor := ""
		if row.Floor != nil {
			floor = row.FloorName + ": " + short(row.Floor.Median, row.Unit)
		}
		figures := fmt.Sprintf("%s, **%s**, %s (%d runs)", plain(row.Figure.Min),
			plain(row.Figure.Median), short(row.Figure.Max, row.Unit), len(row.Figure.Values))
		if len(row.Figure.Values) == 1 {
			figures = "**" + short(row.Figure.Median, row.Unit) + "** (one run)"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |", cell(row.Line), row.Aim, figures, cell(floor),
			row.ratio())
		if !aside {
			fmt.Fprintf(b, " %s |", row.verdict())
		}
		fmt.Fprintln(b)
	}
}

// updateDocument replaces what is between the marks of a document.
func (r *results) updateDocument(file string) error {
	text, err := os.ReadFile(file) // #nosec G304 -- it is asked for
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), markBegin)
	_, after, ends := strings.Cut(rest, markEnd)
	if !begins || !ends {
		return errors.New(file + " has not the two marks of the table")
	}
	if len(r.journal.records) == 0 {
		return errors.New("nothing was measured: " + file + " stays as it is")
	}
	all := before + markBegin + "\n" + r.asMarkdown() + markEnd + after
	return os.WriteFile(file, []byte(all), 0o644) // #nosec G306 G703 -- a document
}
