package main

import (
	"fmt"
	"html"
	"strings"
)

// Sizes of the picture in pixels, and delays in milliseconds.
const (
	columns    = 118
	lineHeight = 19
	charWidth  = 8
	margin     = 20
	barHeight  = 34

	typedMillis = 900 // before a typed line
	shownMillis = 150 // before a line of output
)

const head = `<svg xmlns="http://www.w3.org/2000/svg"
 width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>The first webhook of the README, followed in a shell</title>
<style>
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
text { fill: #c9d1d9; white-space: pre; }
.typed { fill: #ffffff; font-weight: 600; }
.prompt { fill: #7ee787; }
.good { fill: #7ee787; }
.line { opacity: 0; animation: show 0.1s linear forwards; }
@keyframes show { to { opacity: 1; } }
@media (prefers-reduced-motion: reduce) { .line { opacity: 1; animation: none; } }
</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#0d1117"/>
<circle cx="20" cy="17" r="5" fill="#ff7b72"/>
<circle cx="38" cy="17" r="5" fill="#d29922"/>
<circle cx="56" cy="17" r="5" fill="#3fb950"/>
`

// draw returns the picture. Lines appear one after another and stay.
func draw(shown []line) string {
	var b strings.Builder
	height := barHeight + margin + lineHeight*len(shown)
	fmt.Fprintf(&b, head, 2*margin+columns*charWidth, height)
	at := 0
	for i, l := range shown {
		y := barHeight + margin/2 + lineHeight*(i+1) - lineHeight/3
		text, class := cut(l.text, columns), ""
		at += shownMillis
		if l.typed {
			at += typedMillis - shownMillis
			text, class = cut(l.text, columns-2), "typed"
		}
		fmt.Fprintf(&b, `<text xml:space="preserve" class="line" x="%d" y="%d" `+
			`style="animation-delay:%d.%03ds">`, margin, y, at/1000, at%1000)
		if l.typed {
			b.WriteString(`<tspan class="prompt">$ </tspan>`)
		}
		if class == "" && strings.Contains(text, "valid signature") {
			class = "good"
		}
		fmt.Fprintf(&b, "<tspan class=%q>%s</tspan></text>\n", class, html.EscapeString(text))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
