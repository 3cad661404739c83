package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width in which the flags of a help are printed.
const helpWidth = 100

// Group puts the flags that register adds under a heading of the help, unless they have
// one.
func Group(f *pflag.FlagSet, heading string, register func(*pflag.FlagSet)) {
	before := make(map[string]bool)
	f.VisitAll(func(flag *pflag.Flag) { before[flag.Name] = true })
	register(f)
	f.VisitAll(func(flag *pflag.Flag) {
		if !before[flag.Name] && len(flag.Annotations[headingKey]) == 0 {
			annotate(flag, headingKey, heading)
		}
	})
}

// usage is cobra's own, but that flags stand under their headings, lines are wrapped, and
// required flags are marked.
func usage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n  " + c.UseLine())
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " [command]")
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\nAvailable Commands:")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&b, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	b.WriteString(flagUsages("Flags", c.LocalFlags()))
	b.WriteString(flagUsages("Global Flags", c.InheritedFlags()))
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse \"%s [command] --help\" for more information about a command.",
			c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String()+"\n")
	return err
}

// flagUsages lists flags by their headings: first those without one, under a general
// heading.
func flagUsages(general string, flags *pflag.FlagSet) string {
	groups := make(map[string]*pflag.FlagSet)
	flags.VisitAll(func(f *pflag.Flag) {
		heading := strings.Join(f.Annotations[headingKey], "")
		if groups[heading] == nil {
			groups[heading] = pflag.NewFlagSet(heading, pflag.ContinueOnError)
		}
		marked := *f
		marked.Usage += requirement(f)
		groups[heading].AddFlag(&marked)
	})
	var text string
	for _, heading := range slices.Sorted(maps.Keys(groups)) {
		group := groups[heading]
		if !group.HasAvailableFlags() {
			continue
		}
		if heading == "" {
			heading = general
		}
		text += "\n\n" + heading + ":\n" + strings.TrimRight(group.FlagUsagesWrapped(helpWidth), "\n")
	}
	return text
}

// requirement returns how a flag's usage says that it must be given.
func requirement(f *pflag.Flag) string {
	if isRequired(f) {
		return " (required)"
	}
	for _, other := range f.Annotations[oneOf] {
		return " (this or --" + other + " is required)"
	}
	return ""
}
