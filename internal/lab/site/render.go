package main

import (
	"bytes"
	"fmt"
	"html/template"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"github.com/lumenhook/lumenhook/internal/pages"
)

var frame = template.Must(template.ParseFS(assets, "assets/page.html"))

// policy lets a page load nothing but the site's own files.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'"

// shown is what the frame of a page needs.
type shown struct {
	Policy     string
	Title      string
	Section    string
	Home       bool
	Code       bool
	Root       string // from this page to the root of the site: "", "../" and so on
	Nav        []navSection
	Contents   []pages.Heading
	Body       template.HTML
	Prev, Next *navItem
}

type navSection struct {
	Title string
	Open  bool
	Items []navItem
}

type navItem struct {
	Title, URL string
	Current    bool
}

// render makes the HTML of a page.
func (s *site) render(p *page) ([]byte, error) {
	var body bytes.Buffer
	if p.isCode {
		writeCode(&body, languageOf(p.Path), string(p.Source))
	} else {
		if err := s.relink(p); err != nil {
			return nil, err
		}
		if err := toHTML.Render(&body, p.Source, p.Tree); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Path, err)
		}
	}
	v := shown{
		Policy:  policy,
		Title:   p.Title,
		Section: p.section,
		Home:    p.out == "index.html",
		Code:    p.isCode,
		Root:    strings.Repeat("../", strings.Count(p.out, "/")),
		Body:    template.HTML(body.String()), // #nosec G203 -- of pages without HTML of their own
	}
	for _, h := range p.Headings {
		if h.Level <= 3 {
			v.Contents = append(v.Contents, h)
		}
	}
	s.around(p, &v)
	var out bytes.Buffer
	err := frame.Execute(&out, v)
	return out.Bytes(), err
}

// around fills in the navigation, and the pages before and after.
func (s *site) around(p *page, v *shown) {
	var before *navItem
	passed := v.Home
	for _, sec := range s.sections {
		shownSection := navSection{Title: sec.Title, Open: sec.Title == p.section}
		for _, i := range sec.Items {
			to := navItem{Title: i.Title, URL: between(p.out, i.page.out), Current: i.page == p}
			shownSection.Items = append(shownSection.Items, to)
			switch {
			case to.Current:
				v.Prev, passed = before, true
			case passed:
				v.Next, passed = &to, false
			}
			before = &to
		}
		v.Nav = append(v.Nav, shownSection)
	}
}

// between is the way from a file of the site to another.
func between(from, to string) string {
	way, err := filepath.Rel(path.Dir(from), to)
	if err != nil { // both are below the root
		panic(err)
	}
	return filepath.ToSlash(way)
}

// relink turns links between files of the repository into links between those of the site.
func (s *site) relink(p *page) error {
	return ast.Walk(p.Tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			to, err := s.link(p, string(n.Destination))
			n.Destination = []byte(to)
			return ast.WalkContinue, err
		case *ast.Image:
			name := p.Resolve(string(n.Destination))
			s.files[name] = true
			n.Destination = []byte(between(p.out, pictureOut(name)))
		}
		return ast.WalkContinue, nil
	})
}

func (s *site) link(p *page, target string) (string, error) {
	if strings.Contains(target, ":") || strings.HasPrefix(target, "#") {
		return target, nil
	}
	name, anchor, hasAnchor := strings.Cut(p.Resolve(target), "#")
	if name == openapi {
		name = apiPage
	}
	to, err := s.load(name)
	if err != nil {
		return "", fmt.Errorf("%s links %s: %w", p.Path, target, err)
	}
	way := between(p.out, to.out)
	if hasAnchor {
		way += "#" + anchor
	}
	return way, nil
}

// toHTML is goldmark's, but for code, for tables, which may be wider than a screen, and for
// headings, which can be linked.
var toHTML = renderer.NewRenderer(renderer.WithNodeRenderers(
	util.Prioritized(ours{}, 1),
	util.Prioritized(extension.NewTableHTMLRenderer(
		extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), 500),
	util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500),
	util.Prioritized(html.NewRenderer(), 1000),
))

type ours struct{}

// RegisterFuncs tells goldmark what is rendered here.
func (ours) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindFencedCodeBlock, renderFence)
	to.Register(ast.KindCodeBlock, renderIndented)
	to.Register(extast.KindTable, renderTable)
	to.Register(ast.KindHeading, renderHeading)
}

func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	tag := "<div class=\"wide\" tabindex=\"0\"><table>\n"
	if !entering {
		tag = "</table></div>\n"
	}
	_, err := w.WriteString(tag)
	return ast.WalkContinue, err
}

func renderHeading(
	w util.BufWriter, _ []byte, n ast.Node, entering bool,
) (ast.WalkStatus, error) {
	h := n.(*ast.Heading)
	id, _ := h.AttributeString("id")
	var err error
	if entering {
		_, err = fmt.Fprintf(w, "<h%d id=\"%s\">", h.Level, id)
	} else if h.Level == 1 {
		_, err = w.WriteString("</h1>\n")
	} else {
		_, err = fmt.Fprintf(w, ` <a class="here" href="#%s" aria-label="Link to this part">#</a>`+
			"</h%d>\n", id, h.Level)
	}
	return ast.WalkContinue, err
}
