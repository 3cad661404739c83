package cli

import (
	"io"
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/internal/printable"
)

// Plain returns a writer that sends no control sequences to a terminal: it escapes the characters
// that [printable.Text] escapes. Every command writes its output and its errors through one. JSON
// stays the same value.
func Plain(w io.Writer) io.Writer { return &plain{below: w} }

type plain struct {
	below io.Writer
	part  []byte // the beginning of a character, whose rest is still to be written
}

func (p *plain) Write(text []byte) (int, error) {
	whole := append(p.part, text...)
	end := len(whole)
	for n := 1; n < utf8.UTFMax && n <= end; n++ {
		if last := whole[end-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				end -= n
			}
			break
		}
	}
	p.part = append([]byte(nil), whole[end:]...)
	if _, err := io.WriteString(p.below, printable.Text(string(whole[:end]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Exact returns the writer below a plain one, for output whose bytes a program needs, such as
// CSV; on a terminal the plain one.
func Exact(w io.Writer) io.Writer {
	if p, is := w.(*plain); is && !IsTerminal(p.below) {
		return p.below
	}
	return w
}
