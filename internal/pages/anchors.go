package pages

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

// anchors are the names that the headings of one page have got.
type anchors map[string]int

// Generate gives a heading its name: lower case, blanks as hyphens, without punctuation, and
// with a number where a heading before has the same.
func (a anchors) Generate(text []byte, _ ast.NodeKind) []byte {
	name := Anchor(string(text))
	n := a[name]
	a[name]++
	if n > 0 {
		name += "-" + strconv.Itoa(n)
	}
	return []byte(name)
}

// Put is for names that a page gives by itself, which no page does.
func (a anchors) Put(name []byte) { a[string(name)]++ }

// Anchor is the name that forges give to a heading.
func Anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ' || r == '-':
			b.WriteByte('-')
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}
