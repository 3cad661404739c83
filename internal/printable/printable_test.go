package printable_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/internal/printable"
)

// Whatever a stranger writes, no character of the result may control a terminal, change the
// direction of text or be invisible. As JSON, the text must stay the same value.
func TestPrintableTextCommandsNothing(t *testing.T) {
	hidden := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		text := "a" + string(r) + "b"
		got := printable.Text(text)
		if got != text {
			hidden++
		}
		for _, shown := range got {
			if shown != '\n' && shown != '\t' &&
				unicode.In(shown, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Fatalf("%U becomes %q", r, got)
			}
		}
		if r < ' ' || r == '"' || r == '\\' {
			continue // must be escaped in JSON anyway
		}
		var value string
		if err := json.Unmarshal([]byte(`"`+got+`"`), &value); err != nil || value != text {
			t.Fatalf("%U becomes %q, which is JSON of %q: %v", r, got, value, err)
		}
	}
	if hidden < 300 {
		t.Errorf("only %d characters are escaped", hidden)
	}
	for text, want := range map[string]string{
		"order-1 für 東京 🙂\n\tx":  "order-1 für 東京 🙂\n\tx",
		"\x1b[2J\u009b2J":        `\u001b[2J\u009b2J`,
		"a\u202egpj.exe":         `a\u202egpj.exe`,
		"\u2066\u2069\u200f":     `\u2066\u2069\u200f`,
		"\u061c\u200b\u2060":     `\u061c\u200b\u2060`,
		"\U000e0041\ufeff\u2028": `\udb40\udc41\ufeff\u2028`,
		"a\x9b2J\r\x7f":          "a\ufffd2J" + `\u000d\u007f`,
	} {
		if got := printable.Text(text); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b]0;title\x07\u009b31m\u202e\u2066\u200b\U000e0001\x9b")
	f.Fuzz(func(t *testing.T, text string) {
		got := printable.Text(text)
		if printable.Text(got) != got || !utf8.ValidString(got) ||
			strings.ContainsAny(got, "\x1b\u009b\u202e\u200b\r") {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}
