// Package printable makes texts that strangers wrote safe to show to a person. It hides which
// characters command a terminal, change how the text around them is shown, or hide in it.
//
// Invariant: JSON that was written with such a character in it stays the same value.
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

// invisible are the characters that can change how a text around them is shown, or that hide in
// it: controls (C0 and C1, so also the sequences of a terminal), format controls (such as those
// of bidirectional text, zero-width characters and tags), separators of lines, and fillers.
var invisible = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
}

func isInvisible(r rune) bool {
	if r < 0x7f {
		return r < ' ' && r != '\n' && r != '\t'
	}
	return unicode.In(r, invisible...)
}

// Text replaces each invisible character, except line feeds and tabs, by its escape in JSON, such
// as \u202e, and bytes that are no UTF-8 by U+FFFD.
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
