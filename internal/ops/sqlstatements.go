package ops

import "strings"

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
