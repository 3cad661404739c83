package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// nameOf returns the name of a command without the program's, which begins every message.
func nameOf(c *cobra.Command) string {
	if !c.HasParent() {
		return "the program"
	}
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

// argumentsOf returns the arguments that a command's use line names: none, ID, or [ID].
func argumentsOf(c *cobra.Command) cobra.PositionalArgs {
	words := strings.Fields(c.Use + " --")
	switch {
	case strings.ContainsAny(words[1][:1], "-{") || strings.HasPrefix(words[1], "[-"):
		return noArguments
	case words[1][0] == '[':
		return optionalArgument
	}
	return OneArgument
}

// noArguments accepts flags only.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, and got %q", nameOf(c), strings.Join(args, " "))
	}
	return nil
}

// OneArgument requires exactly the argument that the command's use line names.
func OneArgument(c *cobra.Command, args []string) error {
	name := strings.Fields(c.Use)[1]
	switch len(args) {
	case 0:
		return fmt.Errorf("%s needs one %s, and got no argument", nameOf(c), name)
	case 1:
	default:
		return fmt.Errorf("%s needs one %s, and got %d arguments", nameOf(c), name, len(args))
	}
	if args[0] == "" {
		return isEmpty(name)
	}
	return nil
}

// optionalArgument accepts one argument at most.
func optionalArgument(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes at most one argument, and got %d: put one with spaces in it "+
			"in quotes", nameOf(c), len(args))
	}
	if len(args) == 1 && args[0] == "" {
		return isEmpty("the argument")
	}
	return nil
}

// isEmpty is the fault of an argument that has no characters.
func isEmpty(name string) error {
	return fmt.Errorf("%s is empty: is the variable that it came from set?", name)
}

// oneSubcommand returns the fault of a command line that lacks a subcommand.
func oneSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	said := DidYouMean(args[0], names, c.CommandPath()+" ")
	if said == "" {
		said = ": there are " + strings.Join(names, ", ")
	}
	return errors.New(quote(args[0]) + " is no command of " + c.CommandPath() + said)
}

func quote(word string) string { return fmt.Sprintf("%q", word) }

// Nearest returns the names that cobra suggests for a word: those that begin with it, or differ by
// at most two letters, and at most half. A name that is given twice is suggested once.
func Nearest(word string, names []string) []string {
	c := &cobra.Command{SuggestionsMinimumDistance: max(1, min(2, len(word)/2))}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		c.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return c.SuggestionsFor(word)
}

// DidYouMean returns the end of a sentence about an unknown word.
func DidYouMean(word string, names []string, before string) string {
	nearest := Nearest(word, names)
	if len(nearest) == 0 {
		return ""
	}
	return "; did you mean " + before + strings.Join(nearest, " or "+before) + "?"
}

// flagsToldMost bounds how many flags are told for one that there is not.
const flagsToldMost = 4

// didYouMeanFlag returns the end of a sentence about an unknown flag. Some commands have one flag
// where others have several: --memo, and --memo-text, --memo-id and --memo-hash. Who gives the one
// is told all of the several, and who gives one of the several is told the one.
func didYouMeanFlag(word string, names []string) string {
	var several []string
	one := ""
	for _, name := range names {
		if strings.HasPrefix(name, word+"-") {
			several = append(several, "--"+name)
		}
		if strings.HasPrefix(word, name+"-") {
			one = "; did you mean --" + name + "?"
		}
	}
	if last := len(several) - 1; last > 0 && last < flagsToldMost {
		return "; did you mean " + strings.Join(several[:last], ", ") + " or " + several[last] + "?"
	}
	return cmp.Or(DidYouMean(word, names, "--"), one)
}
