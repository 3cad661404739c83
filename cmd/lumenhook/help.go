package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// helpText is the help of every command, except for its flags. A section starts with == and the
// command's use line. The short description follows, then the long one, if there is one, and the
// examples. An example is a comment and a command line, which a test runs (examples_test.go). A
// group lists the commands whose first example it shows.
//
//go:embed help.txt
var helpText string

// help is a section of helpText.
type help struct{ use, short, long, examples string }

// commandName is the part of a use line that is the command's name, without arguments and flags.
var commandName = regexp.MustCompile(`^[a-z][a-z-]*(?: [a-z][a-z-]*)*`)

// helps has the sections of helpText by command, such as "accounts create".
var helps = readHelp(helpText)

func readHelp(text string) map[string]help {
	all := make(map[string]help)
	for section := range strings.SplitSeq(strings.TrimPrefix(text, "== "), "\n== ") {
		use, rest, _ := strings.Cut(section, "\n")
		description, examples, _ := strings.Cut(rest, "\nExamples:")
		short, long, _ := strings.Cut(description, "\n")
		name := commandName.FindString(use)
		all[name] = help{
			use:      use[strings.LastIndex(name, " ")+1:],
			short:    short,
			long:     strings.TrimSpace(long),
			examples: strings.TrimRight(examples, "\n"),
		}
	}
	return all
}

// newCommand returns a command with its help. path is its name with its parents', such as "accounts
// create".
func newCommand(path string, run func(*cobra.Command, []string) error) *cobra.Command {
	h := helpOf(path)
	return &cobra.Command{
		Use:     h.use,
		Short:   h.short,
		Long:    h.long,
		Example: examplesOf(path, h),
		RunE:    run,
	}
}

// group returns a command that only has subcommands.
func group(path string, subcommands ...*cobra.Command) *cobra.Command {
	c := newCommand(path, nil)
	c.AddCommand(subcommands...)
	return c
}

func helpOf(path string) help {
	h, found := helps[path]
	if !found {
		panic(fmt.Sprintf("help.txt has no section %q", path))
	}
	return h
}

func examplesOf(path string, h help) string {
	if own, is := strings.CutPrefix(h.examples, "\n"); is {
		return own
	}
	var firsts []string
	for name := range strings.SplitSeq(strings.TrimSpace(h.examples), ", ") {
		if path != rootName {
			name = path + " " + name
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(helpOf(name).examples, "\n"), "\n\n")
		firsts = append(firsts, first)
	}
	return strings.Join(firsts, "\n\n")
}
