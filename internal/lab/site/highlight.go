package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"path"
	"strings"

	"github.com/alecthomas/chroma/v2"
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// colored writes classes, which the style sheet gives colours: a page has no style of its own.
var colored = chromahtml.New(chromahtml.WithClasses(true), chromahtml.PreventSurroundingPre(true))

// codeColors are the colours of code, in light and in dark.
func codeColors() []byte {
	var b bytes.Buffer
	for _, of := range []struct{ style, when, root string }{
		{"github", "(prefers-color-scheme: light)", ":root:not([data-theme=dark])"},
		{"github-dark", "(prefers-color-scheme: dark)", ":root:not([data-theme=light])"},
		{"github", "", ":root[data-theme=light]"},
		{"github-dark", "", ":root[data-theme=dark]"},
	} {
		var rules bytes.Buffer
		_ = colored.WriteCSS(&rules, styles.Get(of.style)) // a buffer takes everything
		if of.when != "" {
			fmt.Fprintf(&b, "@media %s {\n", of.when)
		}
		for line := range strings.Lines(rules.String()) {
			_, rule, found := strings.Cut(line, "*/ ")
			if found && strings.Contains(rule, ".chroma .") && !strings.Contains(rule, "background") {
				fmt.Fprintf(&b, "%s %s", of.root, rule)
			}
		}
		if of.when != "" {
			b.WriteString("}\n")
		}
	}
	return b.Bytes()
}

func renderFence(
	w util.BufWriter, source []byte, n ast.Node, entering bool,
) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language, code := string(n.(*ast.FencedCodeBlock).Language(source)), codeOf(n, source)
	if language == "mermaid" {
		return ast.WalkSkipChildren, writeStates(w, code)
	}
	writeCode(w, language, code)
	return ast.WalkSkipChildren, nil
}

func renderIndented(
	w util.BufWriter, source []byte, n ast.Node, entering bool,
) (ast.WalkStatus, error) {
	if entering {
		writeCode(w, "", codeOf(n, source))
	}
	return ast.WalkSkipChildren, nil
}

func codeOf(n ast.Node, source []byte) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		b.Write(at.Value(source))
	}
	return b.String()
}

// writeCode writes a block of code with a button that copies it, but for what a program shows.
func writeCode(w io.Writer, language, code string) {
	class := "code"
	if language == "text" {
		class = "code shown"
	}
	fmt.Fprintf(w, `<div class=%q data-language=%q><pre class="chroma" tabindex="0"><code>`,
		class, language)
	lexer := lexers.Get(language)
	if language == "" || lexer == nil {
		lexer = lexers.Fallback
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, code)
	if err == nil {
		err = colored.Format(w, styles.Get("github"), tokens)
	}
	if err != nil { // what cannot be coloured is shown without colours
		_, _ = io.WriteString(w, html.EscapeString(code))
	}
	_, _ = io.WriteString(w, "</code></pre></div>\n")
}

// languageOf is what a file is written in, by its name.
func languageOf(name string) string {
	if lexer := lexers.Match(path.Base(name)); lexer != nil {
		return lexer.Config().Name
	}
	return ""
}
