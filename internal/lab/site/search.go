package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// entry is one part of a page that the search finds: what stands below one heading.
type entry struct {
	URL     string `json:"u"` // from the root of the site
	Title   string `json:"t"`
	Heading string `json:"h,omitempty"`
	Text    string `json:"x"`
}

// entries are the parts of a page.
func entries(p *page) []entry {
	all := []entry{{URL: p.out, Title: p.Title}}
	var text strings.Builder
	end := func() {
		all[len(all)-1].Text = strings.Join(strings.Fields(text.String()), " ")
		text.Reset()
	}
	for n := p.Tree.FirstChild(); n != nil; n = n.NextSibling() {
		h, isHeading := n.(*ast.Heading)
		if !isHeading {
			text.WriteString(wordsOf(p, n))
			continue
		}
		if h.Level > 1 {
			end()
			id, _ := h.AttributeString("id")
			all = append(all, entry{
				URL:     p.out + "#" + string(id.([]byte)),
				Title:   p.Title,
				Heading: p.Words(h),
			})
		}
	}
	end()
	return slices.DeleteFunc(all, func(e entry) bool { return e.Heading != "" && e.Text == "" })
}

// wordsOf are the words of a part, its code included.
func wordsOf(p *page, n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n.(type) {
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			b.WriteString(codeOf(n, p.Source))
		default:
			if n.Type() == ast.TypeBlock && n.FirstChild() != nil &&
				n.FirstChild().Type() == ast.TypeInline {
				b.WriteString(p.Words(n))
			}
		}
		b.WriteByte(' ')
		return ast.WalkContinue, nil
	})
	return b.String()
}

// asScript is the index as a script, which a page may load where it was opened from a folder:
// there, browsers refuse to fetch JSON.
func asScript(index []entry) ([]byte, error) {
	data, err := json.Marshal(index)
	return slices.Concat([]byte("window.searchIndex = "), data, []byte(";\n")), err
}
