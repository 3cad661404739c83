// Package pages parses the project's Markdown pages. Tests use it to compare pages with the program
// (cmd/lumenhook) and to check links (internal/arch).
//
// Pages read the same as on GitHub: with GitHub's tables, strikethrough and heading anchors, and
// without embedded HTML.
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

// Page is a parsed page.
type Page struct {
	Path     string // relative to the root of the repository, with slashes
	Title    string // text of the first heading
	Headings []Heading
	Blocks   []Block
	Links    []Link
	Tree     ast.Node // syntax tree, from which the fields above are extracted
	Source   []byte
}

// Heading is a heading below the title.
type Heading struct {
	Level  int
	Text   string
	Anchor string
}

// Block is a code block.
type Block struct {
	Language string // from the fence; empty if not specified
	Fenced   bool
	Code     string
	Line     int      // line of the page, from 1
	Section  string   // text of the heading above
	Quoting  []string // resolved targets of the links in the preceding paragraph
}

// Link is a link or an image.
type Link struct {
	Target string // as written
	Text   string
	Line   int
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// Read parses a page of the repository in root.
func Read(root, name string) (Page, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return Page{}, err
	}
	return Parse(name, source)
}

// Parse parses the source of a page. It returns an error if the page has no title or contains HTML.
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
		if n.HTMLBlockType != ast.HTMLBlockType2 { // comments are not displayed
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

// Words returns the text of a node without markup.
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

// lineOf returns the line of a node, or of the block that contains it.
func (p *Page) lineOf(n ast.Node) int {
	for ; n != nil; n = n.Parent() {
		if n.Type() != ast.TypeInline && n.Lines() != nil && n.Lines().Len() > 0 {
			return 1 + bytes.Count(p.Source[:n.Lines().At(0).Start], []byte("\n"))
		}
	}
	return 1
}

// Resolve returns a link's target relative to the root of the repository, including its anchor.
// Links to other sites are returned unchanged.
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

// anchors counts the anchors of a page's headings.
type anchors map[string]int

// Generate returns a heading's anchor, with a number appended if the page already has that anchor.
func (a anchors) Generate(text []byte, _ ast.NodeKind) []byte {
	name := Anchor(string(text))
	n := a[name]
	a[name]++
	if n > 0 {
		name += "-" + strconv.Itoa(n)
	}
	return []byte(name)
}

// Put implements [parser.IDs]. It is for explicit IDs, which pages don't use.
func (a anchors) Put(name []byte) { a[string(name)]++ }

// Anchor returns the anchor that GitHub generates for a heading: in lower case, with spaces
// replaced by hyphens and without punctuation.
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
