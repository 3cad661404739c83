package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"

	"github.com/lumenhook/lumenhook/internal/pages"
)

// listOfPages says which pages there are.
const listOfPages = "docs/README.md"

// openapi is the description of the API. Where the list names it, the site has its pages.
const openapi = "schemas/openapi.yaml"

// section is a part of the navigation.
type section struct {
	Title string
	Items []item
}

// item is a page in the navigation.
type item struct {
	page    *page
	Title   string
	Summary string // in Markdown, without its marks
}

// listed reads the sections of the list, with the paths that their items lead to: a heading of
// the second level, and items that begin with a link.
func listed(list pages.Page) (sections []section, paths [][]string, err error) {
	for n := list.Tree.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				sections = append(sections, section{Title: list.Words(n)})
				paths = append(paths, nil)
			}
		case *ast.List:
			if len(sections) == 0 {
				continue
			}
			at := len(sections) - 1
			for li := n.FirstChild(); li != nil; li = li.NextSibling() {
				i, target, err := listedItem(list, li)
				if err != nil {
					return nil, nil, err
				}
				sections[at].Items = append(sections[at].Items, i)
				paths[at] = append(paths[at], target)
			}
		}
	}
	return sections, paths, nil
}

func listedItem(list pages.Page, li ast.Node) (i item, target string, err error) {
	words := list.Words(li)
	link, isLink := li.FirstChild().FirstChild().(*ast.Link)
	if !isLink {
		return item{}, "", fmt.Errorf("%s: an item begins with no link: %s", list.Path, words)
	}
	i.Title = list.Words(link)
	i.Summary = strings.TrimLeft(strings.TrimPrefix(words, i.Title), ":, ")
	return i, list.Resolve(string(link.Destination)), nil
}

// outOf is the file of the site that a page of the repository comes to.
func outOf(name string) string {
	dir, base := path.Split(strings.TrimSuffix(name, ".md"))
	switch {
	case dir == "" && base == "README":
		return "overview.html"
	case dir == "":
		return strings.ToLower(base) + ".html"
	case base == "README":
		base = "index"
	}
	return strings.TrimPrefix(dir, "docs/") + base + ".html"
}
