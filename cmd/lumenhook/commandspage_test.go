package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/pages"
)

var writeCommands = flag.Bool("write-commands", false, "write docs/commands.md anew")

const commandsPage = "../../docs/commands.md"

// docs/commands.md must match the help of every command.
func TestTheCommandsPageIsOfTheHelp(t *testing.T) {
	root := newRoot()
	root.SetOut(io.Discard)
	if code := cli.Execute(t.Context(), cli.Line{
		Root:   root,
		Args:   []string{"version"}, // afterwards, each help is as users see it
		Stderr: io.Discard,
	}); code != 0 {
		t.Fatalf("version ended with %d", code)
	}
	made := commandsPageOf(root)
	if *writeCommands {
		if err := os.WriteFile(commandsPage, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != made {
		t.Error("docs/commands.md is not of this help: run " +
			"`go test ./cmd/lumenhook -run TheCommandsPage -write-commands`")
	}
}

func commandsPageOf(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# The command line\n\nEvery command, as `lumenhook help` says it.\n\n")
	b.WriteString(asMarkdown(root.Long) + "\n| command | does |\n|---|---|\n")
	for _, c := range available(root) {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", c.CommandPath(), pages.Anchor(c.CommandPath()), c.Short)
	}
	for _, c := range available(root) {
		writeCommand(&b, c, "##")
	}
	return b.String()
}

func available(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, sub)
		}
	}
	return all
}

func writeCommand(b *strings.Builder, c *cobra.Command, level string) {
	says := cmp.Or(c.Long, c.Short+".")
	if all := c.Flags().Lookup("help-all"); all != nil {
		_ = all.Value.Set("true")
	}
	fmt.Fprintf(b, "\n%s %s\n\n%s\n", level, c.CommandPath(), asMarkdown(says))
	usage, inherited, _ := strings.Cut(c.UsageString(), "\n\nGlobal Flags:")
	usage, _, _ = strings.Cut(usage, "\n\nUse \"")
	fmt.Fprintf(b, "```text\n%s\n```\n", strings.TrimSpace(usage))
	if inherited != "" {
		fmt.Fprintf(b, "\nAnd the flags of [%s](#%s).\n", c.Parent().CommandPath(),
			pages.Anchor(c.Parent().CommandPath()))
	}
	for _, sub := range available(c) {
		writeCommand(b, sub, "###")
	}
}

// asMarkdown converts a help text to Markdown. Indented text becomes a code block.
func asMarkdown(text string) string {
	escaped := strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`)
	var prose, shown, all []string
	end := func() {
		if len(shown) > 0 {
			all = append(all, "```text\n"+strings.Join(shown, "\n")+"\n```")
		}
		if len(prose) > 0 {
			all = append(all, escaped.Replace(strings.Join(prose, "\n")))
		}
		prose, shown = nil, nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		rest, isShown := strings.CutPrefix(line, "  ")
		switch {
		case line == "" && len(shown) == 0, line != "" && isShown == (len(shown) == 0):
			end()
		}
		switch {
		case isShown, line == "" && len(shown) > 0:
			shown = append(shown, rest)
		case line != "":
			prose = append(prose, line)
		}
	}
	end()
	return strings.ReplaceAll(strings.Join(all, "\n\n"), "\n\n```\n", "\n```\n") + "\n"
}
