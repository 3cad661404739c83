// Package printable makes untrusted text safe to display. It escapes characters that control a
// terminal, change how the surrounding text is displayed, or are invisible.
//
// Invariant: escaping JSON doesn't change its value.
//
// File map: printable.go (everything).
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// invisible contains the characters that are hidden or change how the surrounding text is
// displayed: control characters (C0 and C1, which start terminal sequences), format characters
// (such as bidirectional controls, zero-width characters and tags), line separators and fillers.
var invisible = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
}

func isInvisible(r rune) bool {
	if r < 0x7f {
		return r < ' ' && r != '\n' && r != '\t'
	}
	return unicode.In(r, invisible...)
}

// Text replaces invisible characters, except line feeds and tabs, with JSON escapes such as \u202e.
// It replaces invalid UTF-8 with U+FFFD.
func Text(text string) string {
	if strings.IndexFunc(text, isInvisible) < 0 && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if !isInvisible(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}
