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

// helpAll is the flag that a command with many flags has in addition to --help, which shows the
// important ones.
const helpAll = "help-all"

// Describe puts a flag under a heading of the help, and says which roles use it (none: all) and
// whether its value is not shown.
func Describe(f *pflag.Flag, heading, roles string, secret bool) {
	if heading != "" {
		annotate(f, headingKey, heading)
	}
	if roles != "" {
		annotate(f, rolesKey, roles)
	}
	if secret {
		annotate(f, secretKey, "true")
	}
}

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

// Brief makes --help show, of the flags that were added so far, only those that are named, and
// --help-all show all of them.
func Brief(f *pflag.FlagSet, important ...string) {
	f.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(important, flag.Name) {
			annotate(flag, furtherKey, "true")
		}
	})
	f.Var((*allHelp)(f), helpAll, "show help for all flags")
	f.Lookup(helpAll).NoOptDefVal = "true"
	annotate(f.Lookup(helpAll), answerKey, "true")
}

// allHelp is the value of --help-all, which sets --help too.
type allHelp pflag.FlagSet

func (a *allHelp) Set(text string) error {
	f := (*pflag.FlagSet)(a)
	annotate(f.Lookup(helpAll), shownKey, text)
	return f.Set("help", text)
}

func (*allHelp) String() string { return "" }

func (*allHelp) Type() string { return "bool" }

// isHelp reports whether a flag only shows the help.
func isHelp(f *pflag.Flag) bool { return f.Name == "help" || f.Name == helpAll }

// isBrief reports whether the help of a command shows its important flags only.
func isBrief(c *cobra.Command) bool {
	f := c.Flags().Lookup(helpAll)
	return f != nil && !slices.Contains(f.Annotations[shownKey], "true")
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
	brief := isBrief(c)
	b.WriteString(flagUsages("Flags", c.LocalFlags(), brief))
	b.WriteString(flagUsages("Global Flags", c.InheritedFlags(), brief))
	if brief {
		fmt.Fprintf(&b, "\n\nThese are the important flags. `%s --%s` shows all of them.",
			c.CommandPath(), helpAll)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse \"%s [command] --help\" for more information about a command.",
			c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String()+"\n")
	return err
}

// flagUsages lists flags by their headings: first those without one, under a general
// heading.
func flagUsages(general string, flags *pflag.FlagSet, brief bool) string {
	groups := make(map[string]*pflag.FlagSet)
	flags.VisitAll(func(f *pflag.Flag) {
		if brief && len(f.Annotations[furtherKey]) > 0 {
			return
		}
		heading := headingOf(f, flags.Lookup("roles") != nil && !brief)
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

// headingOf returns the heading under which a flag stands, with the roles that use it.
func headingOf(f *pflag.Flag, withRoles bool) string {
	heading := strings.Join(f.Annotations[headingKey], "")
	roles := strings.Join(f.Annotations[rolesKey], "")
	if !withRoles || roles == "" {
		return heading
	}
	return heading + " (" + roles + ")"
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
