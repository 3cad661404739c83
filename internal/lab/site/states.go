package main

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// writeStates writes a state diagram, which forges draw, as the list of its transitions: a
// program that draws would be larger than the rest of the site.
func writeStates(w io.Writer, diagram string) error {
	lines := strings.Split(strings.TrimSpace(diagram), "\n")
	if lines[0] != "stateDiagram-v2" {
		return fmt.Errorf("of diagrams the site knows those of states, and not %q", lines[0])
	}
	var b strings.Builder
	b.WriteString("<div class=\"wide\" tabindex=\"0\"><table class=\"states\">\n" +
		"<thead><tr><th>From</th><th>To</th><th>When</th></tr></thead>\n<tbody>\n")
	for _, line := range lines[1:] {
		arrow, when, _ := strings.Cut(line, ": ")
		from, to, isArrow := strings.Cut(arrow, " --> ")
		if !isArrow {
			return fmt.Errorf("a line of a state diagram is no transition: %q", line)
		}
		fmt.Fprintf(&b, "<tr><td>%s</td><td>%s</td><td>%s</td></tr>\n", stateName(from, "beginning"),
			stateName(to, "end"), html.EscapeString(when))
	}
	b.WriteString("</tbody></table></div>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// stateName shows a state; the diagram's [*] is the beginning or the end.
func stateName(name, star string) string {
	if name = strings.TrimSpace(name); name == "[*]" {
		return "<em>" + star + "</em>"
	}
	return "<code>" + html.EscapeString(name) + "</code>"
}
