// Package pages reads the project's pages, which are Markdown. It hides the parser, and how a
// forge names the anchor of a heading. Tests use it to compare pages with the program
// (cmd/lumenhook) and to check links (internal/arch).
//
// It holds that a page reads the same here as on a forge: tables and strikethrough of GitHub,
// no HTML of a page's own, and anchors as GitHub makes them, of which it refuses to make two
// alike.
package pages

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Page is one page, and what there is on it.
type Page struct {
	Path     string // from the root of the repository, with slashes
	Title    string // its first heading
	Headings []Heading
	Blocks   []Block
	Links    []Link
	Tree     ast.Node // of which its parts are read
	Source   []byte
}

// Heading is one below the title.
type Heading struct {
	Level  int
	Text   string
	Anchor string
}

// Block is one block of code.
type Block struct {
	Language string // as the fence says it; of an indented block, and of a bare fence: none
	Fenced   bool
	Code     string
	Line     int      // of the page, from 1
	Section  string   // the heading above it
	Quoting  []string // the targets of links in the paragraph before it
}

// Link is a link or a picture.
type Link struct {
	Target string // as it is written
	Text   string
	Line   int
}

// markdown reads what the pages are written in.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// Read reads a page of the repository, whose root is given.
func Read(root, name string) (Page, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return Page{}, err
	}
	return Parse(name, source)
}

// Parse reads a page's text.
func Parse(name string, source []byte) (Page, error) {
	p := Page{Path: name, Source: source}
	p.Tree = markdown.Parser().Parse(text.NewReader(source),
		parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	err := ast.Walk(p.Tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			return ast.WalkContinue, p.take(n)
		}
		return ast.WalkContinue, nil
	})
	if err == nil && p.Title == "" {
		err = fmt.Errorf("%s has no title: begin it with a line such as \"# Verify\"", name)
	}
	return p, err
}

// take notes a part.
func (p *Page) take(n ast.Node) error {
	switch n := n.(type) {
	case *ast.Heading:
		p.takeHeading(n)
	case *ast.FencedCodeBlock:
		p.takeBlock(n, string(n.Language(p.Source)), true)
	case *ast.CodeBlock:
		p.takeBlock(n, "", false)
	case *ast.Link:
		p.Links = append(p.Links, Link{string(n.Destination), p.Words(n), p.lineOf(n)})
	case *ast.Image:
		p.Links = append(p.Links, Link{string(n.Destination), p.Words(n), p.lineOf(n)})
	case *ast.HTMLBlock:
		if n.HTMLBlockType != ast.HTMLBlockType2 { // a comment, which nobody sees
			return fmt.Errorf("%s:%d: HTML: write it in Markdown", p.Path, p.lineOf(n))
		}
	case *ast.RawHTML:
		return fmt.Errorf("%s:%d: HTML: write it in Markdown", p.Path, p.lineOf(n))
	}
	return nil
}

func (p *Page) takeHeading(n *ast.Heading) {
	words := p.Words(n)
	if p.Title == "" {
		p.Title = words
		return
	}
	h := Heading{Level: n.Level, Text: words}
	if id, found := n.AttributeString("id"); found {
		h.Anchor = string(id.([]byte))
	}
	p.Headings = append(p.Headings, h)
}

func (p *Page) takeBlock(n ast.Node, language string, fenced bool) {
	b := Block{Language: language, Fenced: fenced, Line: p.lineOf(n), Section: p.Title}
	if len(p.Headings) > 0 {
		b.Section = p.Headings[len(p.Headings)-1].Text
	}
	var code bytes.Buffer
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		code.Write(at.Value(p.Source))
	}
	b.Code = code.String()
	if before := n.PreviousSibling(); before != nil && before.Kind() == ast.KindParagraph {
		for c := before.FirstChild(); c != nil; c = c.NextSibling() {
			if link, isLink := c.(*ast.Link); isLink {
				b.Quoting = append(b.Quoting, p.Resolve(string(link.Destination)))
			}
		}
	}
	p.Blocks = append(p.Blocks, b)
}

// Words are the words of a part, without its marks.
func (p *Page) Words(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(p.Source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// lineOf is the line at which a part begins, or what contains it.
func (p *Page) lineOf(n ast.Node) int {
	for ; n != nil; n = n.Parent() {
		if n.Type() != ast.TypeInline && n.Lines() != nil && n.Lines().Len() > 0 {
			return 1 + bytes.Count(p.Source[:n.Lines().At(0).Start], []byte("\n"))
		}
	}
	return 1
}

// Resolve gives the path, from the root of the repository, of what a link leads to; with its
// anchor. A link to another site stays as it is.
func (p *Page) Resolve(target string) string {
	if strings.Contains(target, ":") {
		return target
	}
	file, anchor, hasAnchor := strings.Cut(target, "#")
	if file == "" {
		file = p.Path
	} else {
		file = path.Join(path.Dir(p.Path), file)
	}
	if hasAnchor {
		file += "#" + anchor
	}
	return file
}

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
