package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
)

// built is a page as it stands in the folder.
type built struct {
	anchors map[string]bool
	links   []string // as they are written
	faults  []string
}

// check reads the site as a browser would, and names every link that leads nowhere, and
// everything that the policy of the pages would keep a browser from.
func check(out string) error {
	all := make(map[string]built)
	err := filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(out, name)
		if err != nil || filepath.Ext(name) != ".html" {
			all[filepath.ToSlash(rel)] = built{}
			return err
		}
		all[filepath.ToSlash(rel)], err = readBuilt(name)
		return err
	})
	if err != nil {
		return err
	}
	var faults []error
	for name, b := range all {
		for _, what := range b.faults {
			faults = append(faults, fmt.Errorf("%s: %s", name, what))
		}
		for _, to := range b.links {
			if what := leadsNowhere(all, name, to); what != "" {
				faults = append(faults, fmt.Errorf("%s: %s", name, what))
			}
		}
	}
	return errors.Join(faults...)
}

// leadsNowhere says what is wrong with a link, if anything is.
func leadsNowhere(all map[string]built, from, to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return err.Error()
	}
	if u.Scheme == "https" {
		return ""
	}
	if u.Scheme != "" || u.Host != "" || strings.HasPrefix(u.Path, "/") {
		return "a link is neither of the site nor of https: " + to
	}
	name := from
	if u.Path != "" {
		name = path.Join(path.Dir(from), u.Path)
	}
	target, exists := all[name]
	if !exists {
		return "there is no " + name
	}
	if u.Fragment != "" && !target.anchors[u.Fragment] {
		return name + " has no part #" + u.Fragment
	}
	return ""
}

func readBuilt(name string) (built, error) {
	f, err := os.Open(name)
	if err != nil {
		return built{}, err
	}
	defer f.Close()
	b := built{anchors: make(map[string]bool)}
	tokens := html.NewTokenizer(f)
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			if err := tokens.Err(); err.Error() != "EOF" {
				return b, err
			}
			return b, nil
		case html.StartTagToken, html.SelfClosingTagToken:
			b.take(tokens.Token())
		default: // text, ends and comments lead nowhere
		}
	}
}

// take notes what one tag names and loads.
func (b *built) take(tag html.Token) {
	loads := tag.Data == "script" || tag.Data == "img" || tag.Data == "link"
	hasSource := false
	for _, a := range tag.Attr {
		switch a.Key {
		case "id":
			if b.anchors[a.Val] {
				b.faults = append(b.faults, "two parts are named "+a.Val)
			}
			b.anchors[a.Val] = true
		case "href", "src":
			hasSource = true
			if loads && strings.Contains(a.Val, ":") {
				b.faults = append(b.faults, "it loads "+a.Val)
			}
			b.links = append(b.links, a.Val)
		case "style", "onclick", "onload":
			b.faults = append(b.faults, "its policy forbids the attribute "+a.Key)
		}
	}
	if tag.Data == "style" || tag.Data == "script" && !hasSource {
		b.faults = append(b.faults, "its policy forbids a "+tag.Data+" within the page")
	}
}
