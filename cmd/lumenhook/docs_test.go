package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/pages"
)

// Code blocks on the pages are tested by language:
//
//   - sh: a page in followedFolders is followed from its first block to its last, each page in its
//     own shell, with one service (TestPagesAreFollowed; quick starts of languages:
//     TestReceiverKitsPagesAreFollowed, in make test-receivers; the tutorial on three brokers:
//     TestProductionIsFollowed, in make test-kafka). A text block after an sh block is the
//     program's output: its lines must appear in this order, and … stands for anything. Sections of
//     other pages have their own tests (followedApart). In all of them, and in indented blocks,
//     calls of the program must use commands and flags that exist.
//   - sql: run on the same service; those of docs/analytics.md by TestEveryQuestionHasAnAnswer.
//   - json: parsed.
//   - languages of receivers: must be part of a file that the paragraph before the block links.
//     These files are run with their own toolchains (make test-signatures, and examples_test.go of
//     each package).
//   - mermaid: read by the site's generator.
//   - text, http and diff: nothing to run. A fence must name a language.
//
// Blocks without any of these tests are listed in notHeld, with a reason.
var (
	followedFolders = []string{"docs/guides/", "docs/start/", "docs/tutorials/"}
	receivers       = []string{"go", "javascript", "typescript", "python", "java", "rust"}
	nothingToRun    = []string{"text", "http", "diff", "mermaid"}
)

// followedApart lists the sections whose blocks other tests follow.
var followedApart = map[string]string{
	"README.md#A first webhook in five minutes": "TestTheREADMEsFirstWebhook",
}

// notHeld gives the reason for each block that is not tested, by its page and its first words.
var notHeld = map[string]string{
	"docs/architecture.md: kcat … -C -t lumenhook.journal": "kcat and protoc are tools of others",
	"docs/benchmarks.md: make bench":                       "minutes to hours, and figures of a machine",
	"docs/inspecting.md: lumenhook sql":                    "TestTheDocumentedLooksInside, in part",
	"docs/operate/configure.md: CREATE DATABASE":           "TestMissingPrivilegesAreNamed compares it",
	"docs/operate/one-machine.md: rule_files":              "TestThePageFitsThePackage reads it",
}

// Each code block on each page must be run, parsed, or compared, or be listed in notHeld.
func TestEveryBlockIsHeld(t *testing.T) {
	unused, blocks := make(map[string]bool), 0
	for key := range notHeld {
		unused[key] = true
	}
	for _, p := range allPages(t) {
		for _, b := range p.Blocks {
			blocks++
			if key := reasonFor(p, b); key != "" {
				delete(unused, key)
			} else if err := held(p, b); err != nil {
				t.Errorf("%s:%d: %v", p.Path, b.Line, err)
			}
		}
	}
	for key := range unused {
		t.Errorf("notHeld has %q, which no page has", key)
	}
	if blocks < 80 {
		t.Errorf("only %d blocks were found: are pages still read rightly?", blocks)
	}
}

func reasonFor(p pages.Page, b pages.Block) string {
	for key := range notHeld {
		page, begins, _ := strings.Cut(key, ": ")
		if page == p.Path && strings.HasPrefix(b.Code, begins) {
			return key
		}
	}
	return ""
}

// held returns what is wrong with a block, or that no test covers it.
func held(p pages.Page, b pages.Block) error {
	switch {
	case !b.Fenced, slices.Contains(nothingToRun, b.Language):
		return nil
	case b.Language == "":
		return fmt.Errorf("a fence names no language: text is what is only shown")
	case b.Language == "sh":
		if isFollowed(p.Path) || p.Path == oneMachinePage || followedApart[p.Path+"#"+b.Section] != "" {
			return nil
		}
	case b.Language == "sql":
		if isFollowed(p.Path) || p.Path == "docs/analytics.md" {
			return nil
		}
	case b.Language == "json":
		var value any
		return json.Unmarshal([]byte(b.Code), &value)
	case slices.Contains(receivers, b.Language):
		return quotes(b)
	}
	return fmt.Errorf("nothing holds this block of %s in the section %q: move it to a page that is "+
		"followed, or give a reason in notHeld", b.Language, b.Section)
}

func isFollowed(name string) bool {
	return slices.ContainsFunc(followedFolders, func(dir string) bool {
		return strings.HasPrefix(name, dir)
	})
}

// needsToolchain reports whether a page is the quick start of a language, which
// TestReceiverKitsPagesAreFollowed follows in make test-receivers.
func needsToolchain(name string) bool {
	return strings.HasPrefix(name, "docs/start/") && name != "docs/start/curl.md"
}

// oneMachinePage is followed by TestOneMachineIsFollowed, in make test-package.
const oneMachinePage = "docs/operate/one-machine.md"

// productionPage is followed by TestProductionIsFollowed, in make test-kafka.
const productionPage = "docs/tutorials/production.md"

// quotes checks that a block is part of a file that the paragraph before it links. Indentation may
// differ.
func quotes(b pages.Block) error {
	for _, name := range b.Quoting {
		name, _, _ = strings.Cut(name, "#")
		code, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			continue // a folder, or another site
		}
		if strings.Contains(leftmost(string(code)), leftmost(b.Code)) {
			return nil
		}
	}
	return fmt.Errorf("it is no piece of a file that the paragraph before links (%q): "+
		"copy it from there", b.Quoting)
}

func leftmost(code string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(code, "")
}

func allPages(t *testing.T) (all []pages.Page) {
	t.Helper()
	root := filepath.Join("..", "..")
	names, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"docs", "examples"} {
		below, err := pagesBelow(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, below...)
	}
	for _, name := range names {
		name, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := pages.Read(root, filepath.ToSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func pagesBelow(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", "target", "build"}, d.Name()):
			return fs.SkipDir // installed or built by a kit
		case filepath.Ext(name) == ".md":
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// called matches a call of the program in a block, up to the end of the shell command, a comment,
// or a nested call.
var called = regexp.MustCompile(
	`(?m)(?:^|[\s(])(?:\./bin/)?lumenhook ([a-z](?:[^\n|;&)#$]|\$[^(])*)`)

// named matches a call of the program in the text of a page.
var named = regexp.MustCompile("`(lumenhook [a-z][^`]*)`")

func TestPagesNameCommandsThatExist(t *testing.T) {
	calls := 0
	for _, p := range allPages(t) {
		if p.Path == "docs/commands.md" {
			continue // generated from the help, whose examples have their own test
		}
		for _, b := range p.Blocks {
			calls += callsExist(t, fmt.Sprintf("%s:%d", p.Path, b.Line), b.Code)
		}
		text, err := os.ReadFile(filepath.Join("..", "..", p.Path))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range named.FindAllStringSubmatch(string(text), -1) {
			calls += callsExist(t, p.Path, strings.ReplaceAll(call[1], "\n", " "))
		}
	}
	if calls < 150 {
		t.Errorf("only %d calls were found: are pages still read rightly?", calls)
	}
}

func callsExist(t *testing.T, at, code string) (calls int) {
	t.Helper()
	code = strings.ReplaceAll(code, "\\\n", " ")
	for _, call := range called.FindAllStringSubmatch(code, -1) {
		calls++
		if err := exists(strings.Fields(call[1])); err != nil {
			t.Errorf("%s: lumenhook %s: %v", at, call[1], err)
		}
	}
	return calls
}

func exists(words []string) error {
	root := newRoot()
	root.InitDefaultHelpCmd()
	c, _, err := root.Find(words)
	if err != nil {
		return err
	}
	if !c.HasParent() {
		return fmt.Errorf("there is no such command")
	}
	c.InitDefaultHelpFlag()
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && !hasFlag(c, name) {
			return fmt.Errorf("%q has no --%s", c.CommandPath(), name)
		}
	}
	return nil
}

func hasFlag(c *cobra.Command, name string) bool {
	return c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil
}

// TestPagesAreFollowed follows each page as written, with one service. The output of each block
// must be as shown, and nothing may fail.
func TestPagesAreFollowed(t *testing.T) {
	home := t.TempDir()
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	s.start("--no-demo", "--egress-ports", "443,1024-65535", "--ledger-interval", "300ms",
		"--retry-schedule", "500ms", "--balance-moves")
	defer s.interrupt()
	t.Run("pages", func(t *testing.T) {
		for _, p := range allPages(t) {
			if isFollowed(p.Path) && !needsToolchain(p.Path) && p.Path != productionPage {
				t.Run(path.Base(p.Path), func(t *testing.T) {
					t.Parallel()
					followPage(t, t.TempDir(), s.dir, p)
				})
			}
		}
	})
}

func followPage(t *testing.T, home, dataDir string, p pages.Page) {
	t.Helper()
	if err := os.Symlink(dataDir, filepath.Join(home, ".lumenhook")); err != nil {
		t.Fatal(err)
	}
	patience := blockMax
	if needsToolchain(p.Path) {
		patience = toolchainMax
	}
	openShell(t, home, os.Getenv("PATH")).followBlocks(p, patience)
}

// followBlocks types the blocks of a page, waits for the output of each, and closes the shell.
func (sh *shell) followBlocks(p pages.Page, patience time.Duration) {
	sh.t.Helper()
	sh.types("trap 'echo the shell ended with $?' EXIT\n")
	for i, b := range p.Blocks {
		at := len(sh.output.String())
		switch b.Language {
		case "sh":
			sh.types(b.Code)
		case "sql":
			sh.types("lumenhook sql <<'END'\n" + strings.TrimRight(b.Code, ";\n") + ";\nEND\n")
		default:
			continue
		}
		done := fmt.Sprintf("block %d is done", i)
		sh.types("echo " + done + "\n")
		shown := done
		if i+1 < len(p.Blocks) && p.Blocks[i+1].Language == "text" {
			shown = p.Blocks[i+1].Code
		}
		where := fmt.Sprintf("%s:%d", p.Path, b.Line)
		sh.awaits(where, at, shown, patience)
		sh.awaits(where, at, done, patience)
	}
	if err := sh.end(); err != nil {
		sh.t.Errorf("%s ended with %v:\n%s", p.Path, err, sh.output)
	}
}

// blockMax limits the time of a block, and toolchainMax the time of one that installs and compiles.
const blockMax, toolchainMax = 40 * time.Second, 4 * time.Minute

// awaits waits until the output from position after on shows the lines of a text, in order.
func (sh *shell) awaits(where string, after int, text string, patience time.Duration) {
	sh.t.Helper()
	expected := asPattern(sh.withPorts(text))
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		output := sh.output.String()[after:]
		if expected.MatchString(output) {
			return
		}
		if strings.Contains(output, "the shell ended with") {
			sh.t.Fatalf("%s failed:\n%s", where, sh.output)
		}
		select {
		case <-deadline.C:
			sh.t.Fatalf("%s never showed\n%s\nbut\n%s", where, text, output)
		case <-tick.C:
		}
	}
}

// asPattern returns a pattern for the lines of a text. Other lines may come in between, the number
// of blanks may differ, and … stands for any part of a line.
func asPattern(text string) *regexp.Regexp {
	var lines []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		for i, word := range words {
			words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), "…", `[^\n]*?`)
		}
		if len(words) > 0 {
			lines = append(lines, strings.Join(words, `[ \t]+`))
		}
	}
	return regexp.MustCompile(`(?m)^\s*` + strings.Join(lines, `[ \t]*$(?s:.*?)^\s*`) + `[ \t]*$`)
}

func TestAPatternFitsWhatAProgramShows(t *testing.T) {
	text := "evt_…   DELIVERED\nattempt 1, HTTP 200\n"
	shown := "hello\n  evt_12  DELIVERED\nbetween\nattempt 1, HTTP 200  \n"
	if !asPattern(text).MatchString(shown) {
		t.Error("it does not fit")
	}
	for _, other := range []string{
		"evt_12  FAILED\nattempt 1, HTTP 200\n", "attempt 1, HTTP 200\nevt_12 DELIVERED\n",
		"evt_12  DELIVERED at last\nattempt 1, HTTP 200\n",
	} {
		if asPattern(text).MatchString(other) {
			t.Errorf("it fits %q", other)
		}
	}
}
