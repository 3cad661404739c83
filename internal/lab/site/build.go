package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/internal/pages"
)

//go:embed assets
var assets embed.FS

// sourceMax bounds a file of the repository that a page of the site shows.
const sourceMax = 512 << 10

// page is a page of the site.
type page struct {
	pages.Page
	out     string // its file in the site, with slashes
	section string
	isCode  bool // it shows a file of the repository
}

// site is what is being built.
type site struct {
	root, out string
	sections  []section
	all       []*page          // in the order of the navigation, then those that are only linked
	of        map[string]*page // by their path in the repository
	files     map[string]bool  // pictures that pages show, by their path in the repository
}

// build makes the site, and tells how many pages it has.
func build(root, out string) (n int, err error) {
	s := &site{root: root, out: out, of: make(map[string]*page), files: make(map[string]bool)}
	if err := s.readPages(); err != nil {
		return 0, err
	}
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	index, err := s.writePages()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(s.nothingIsLeftOut(), s.writeFiles(index)); err != nil {
		return 0, err
	}
	return len(s.all), check(out)
}

// writePages writes the pages, and gives what the search finds in them. A page may link one that
// no list has, which comes after those that there are.
func (s *site) writePages() (index []entry, err error) {
	for waiting := slices.Clone(s.all); len(waiting) > 0; {
		p, known := waiting[0], len(s.all)
		html, err := s.render(p)
		if err != nil {
			return nil, err
		}
		if err := s.write(p.out, html); err != nil {
			return nil, err
		}
		if !p.isCode {
			index = append(index, entries(p)...)
		}
		waiting = append(waiting[1:], s.all[known:]...)
	}
	return index, nil
}

// readPages reads the pages in the order of the list.
func (s *site) readPages() error {
	list, err := pages.Read(s.root, listOfPages)
	if err != nil {
		return err
	}
	home := s.add(&page{Page: list})
	home.section = "Start"
	sections, paths, err := listed(list)
	if err != nil {
		return err
	}
	for at, sec := range sections {
		var items []item
		for i, listed := range sec.Items {
			if paths[at][i] == openapi {
				all, err := s.addAPI(sec.Title)
				if err != nil {
					return err
				}
				items = append(items, all...)
				continue
			}
			if listed.page, err = s.load(paths[at][i]); err != nil {
				return fmt.Errorf("%s: %w", listOfPages, err)
			}
			listed.page.section = sec.Title
			items = append(items, listed)
		}
		sections[at].Items = items
	}
	s.sections = sections
	return nil
}

// nothingIsLeftOut holds that each page below docs can be found: in the list, or, as those of
// decisions are, from a page that lists its folder.
func (s *site) nothingIsLeftOut() error {
	var left error
	docs := filepath.Join(s.root, "docs")
	err := filepath.WalkDir(docs, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		if name, err = filepath.Rel(s.root, name); err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if p := s.of[name]; p == nil || p.section == "" {
			list := listOfPages
			if own := path.Join(path.Dir(name), "README.md"); s.of[own] != nil {
				list = own
			}
			left = errors.Join(left, fmt.Errorf("%s is on no list: give it a line in %s", name, list))
		}
		return nil
	})
	return errors.Join(err, left)
}

func (s *site) add(p *page) *page {
	if p.out == "" {
		p.out = outOf(p.Path)
	}
	s.all = append(s.all, p)
	s.of[p.Path] = p
	return p
}

// load gives the page of a file of the repository: Markdown as such, any other as it is.
func (s *site) load(name string) (*page, error) {
	if p := s.of[name]; p != nil {
		return p, nil
	}
	if path.Ext(name) == ".md" {
		read, err := pages.Read(s.root, name)
		if err != nil {
			return nil, err
		}
		p := &page{Page: read}
		list := s.of[path.Join(path.Dir(name), "README.md")]
		if list != nil && list.Path != listOfPages {
			p.section = list.section
		}
		return s.add(p), nil
	}
	info, err := os.Stat(filepath.Join(s.root, name))
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return s.folder(name)
	}
	if info.Size() > sourceMax {
		return nil, fmt.Errorf("%s has %d bytes, and a page shows %d at most", name, info.Size(),
			sourceMax)
	}
	code, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil {
		return nil, err
	}
	return s.addCode(name, path.Base(name), code)
}

// folder gives the page of a folder: its own, where it has one, or a list of its files.
func (s *site) folder(name string) (*page, error) {
	own := path.Join(name, "README.md")
	if _, err := os.Stat(filepath.Join(s.root, own)); err == nil {
		return s.load(own)
	}
	entries, err := os.ReadDir(filepath.Join(s.root, name))
	if err != nil {
		return nil, err
	}
	var list bytes.Buffer
	for _, e := range entries {
		list.WriteString(e.Name())
		if e.IsDir() {
			list.WriteByte('/')
		}
		list.WriteByte('\n')
	}
	return s.addCode(name, "files.txt", list.Bytes())
}

// addCode adds a page that shows a file.
func (s *site) addCode(name, file string, code []byte) (*page, error) {
	return s.add(&page{
		Page:   pages.Page{Path: name, Title: name, Source: code},
		out:    path.Join("source", name, strings.ReplaceAll(file, ".html", "")+".html"),
		isCode: true,
	}), nil
}

// writeFiles writes what is no page: what every page has, pictures, and what the search finds.
func (s *site) writeFiles(index []entry) error {
	found, err := asScript(index)
	if err != nil {
		return err
	}
	if err := s.write("assets/search-index.js", found); err != nil {
		return err
	}
	for _, name := range []string{"site.css", "site.js", "icon.svg"} {
		data, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		if name == "site.css" {
			data = slices.Concat(data, codeColors())
		}
		if err := s.write("assets/"+name, data); err != nil {
			return err
		}
	}
	for name := range s.files {
		data, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return err
		}
		if err := s.write(pictureOut(name), data); err != nil {
			return err
		}
	}
	return nil
}

// pictureOut is the file of the site that a picture comes to.
func pictureOut(name string) string { return "pictures/" + strings.TrimPrefix(name, "docs/") }

func (s *site) write(name string, data []byte) error {
	to := filepath.Join(s.out, filepath.FromSlash(name))
	// #nosec G301 -- for everybody to read
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	// #nosec G306 G703 -- as above, at the place that whoever builds it names
	return os.WriteFile(to, data, 0o644)
}
