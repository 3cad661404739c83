// Command weigh prints the weight of the repository by area next to the budgets in budget.txt. It
// fails if a weight exceeds its budget:
//
//	make weigh
//
// Lines are counted in Go files that are neither tests nor generated. A commit may raise a budget
// if it says why. Lower the budget when the weight falls.
// commit that says why. Lower it when the weight falls.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
)

func main() {
	root := flag.String("root", "../..", "the repository")
	budgets := flag.String("budget", "weigh/budget.txt", "names and their most weights, in lines")
	flag.Parse()
	over, err := run(*root, *budgets)
	if err == nil && over > 0 {
		err = fmt.Errorf("%d over budget: make it lighter, or raise the budget and say why", over)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "weigh:", err)
		os.Exit(1)
	}
}

func run(root, budgets string) (over int, err error) {
	text, err := os.ReadFile(budgets) // #nosec G304 -- the caller's
	if err != nil {
		return 0, err
	}
	w, err := weigh(root)
	if err != nil {
		return 0, err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "weight\tbudget\t\t")
	for line := range strings.Lines(string(text)) {
		var name string
		var most int
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		if _, err := fmt.Sscan(line, &name, &most); err != nil {
			return 0, fmt.Errorf("%s: %q: %w", budgets, line, err)
		}
		got, is := w[name]
		verdict := ""
		switch {
		case !is:
			return 0, fmt.Errorf("%s: there is no weight %q", budgets, name)
		case got > most:
			verdict, over = "over by "+fmt.Sprint(got-most), over+1
		}
		fmt.Fprintf(out, "%d\t%d\t%s\t %s\n", got, most, name, verdict)
	}
	return over, out.Flush()
}

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	command   = regexp.MustCompile(`(?m)^##+ lumenhook .*$`)
	option    = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)`)
	required  = regexp.MustCompile(`(?m)^(?:require |\t)\S+\.\w+/\S+ v\S+$`)
)

// weigh returns all weights by name. The lab is a separate module.
func weigh(root string) (map[string]int, error) {
	w := make(map[string]int)
	packages := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return leftOut(path, name)
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		code, err := os.ReadFile(path) // #nosec G304 G122 -- the repository's
		if err != nil || generated.Match(code) {
			return err
		}
		area, _, _ := strings.Cut(filepath.ToSlash(name), "/")
		part, whole := area, "product"
		if strings.HasPrefix(filepath.ToSlash(name), "internal/lab/") {
			part, whole = "lab", "lab"
		}
		w["lines/"+part] += bytes.Count(code, []byte("\n"))
		if part != whole {
			w["lines/"+whole] += bytes.Count(code, []byte("\n"))
		}
		w["files/"+whole]++
		if dir := filepath.Dir(path); !packages[dir] {
			packages[dir] = true
			w["packages/"+whole]++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, surface(w, root)
}

// leftOut skips other modules, except the lab, and files that aren't our code.
func leftOut(path, name string) error {
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	module := err == nil && name != "." && filepath.ToSlash(name) != "internal/lab"
	base := filepath.Base(name)
	if module || base == "testdata" || base == "node_modules" || name != "." && base[0] == '.' {
		return fs.SkipDir
	}
	return nil
}

// surface adds what users and packagers see: commands, flags and direct dependencies.
func surface(w map[string]int, root string) error {
	page, err := os.ReadFile(filepath.Join(root, "docs", "commands.md"))
	if err != nil {
		return err
	}
	at := append(command.FindAllIndex(page, -1), []int{len(page)})
	w["commands"] = len(at) - 1
	for i := range w["commands"] {
		_, name, _ := strings.Cut(string(page[at[i][0]:at[i][1]]), " lumenhook ")
		flags := make(map[string]bool)
		for _, m := range option.FindAllSubmatch(page[at[i][1]:at[i+1][0]], -1) {
			flags[string(m[1])] = true
		}
		w["flags/"+strings.ReplaceAll(name, " ", "-")] = len(flags)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	w["dependencies"] = len(required.FindAll(mod, -1))
	return err
}
