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

const helpWidth = 100

// helpAll is the flag that shows all flags. Commands with many flags show only the important ones
// for --help.
const helpAll = "help-all"

// Describe sets a flag's heading in the help, the roles that use it ("" means all), and whether its
// value is secret.
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

// Group puts the flags that register adds under a heading, unless they already have one.
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

// Brief makes --help show only the important flags of those added so far, and adds --help-all,
// which shows all flags.
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

// allHelp is the value of --help-all. Setting it also sets --help.
type allHelp pflag.FlagSet

func (a *allHelp) Set(text string) error {
	f := (*pflag.FlagSet)(a)
	annotate(f.Lookup(helpAll), shownKey, text)
	return f.Set("help", text)
}

func (*allHelp) String() string { return "" }

func (*allHelp) Type() string { return "bool" }

func isHelp(f *pflag.Flag) bool { return f.Name == "help" || f.Name == helpAll }

func isBrief(c *cobra.Command) bool {
	f := c.Flags().Lookup(helpAll)
	return f != nil && !slices.Contains(f.Annotations[shownKey], "true")
}

// usage is like cobra's, but groups flags under headings, wraps lines and marks required flags.
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

// flagUsages lists flags by heading. Flags without one come first, under a general heading.
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

// headingOf returns a flag's heading, with the roles that use it.
func headingOf(f *pflag.Flag, withRoles bool) string {
	heading := strings.Join(f.Annotations[headingKey], "")
	roles := strings.Join(f.Annotations[rolesKey], "")
	if !withRoles || roles == "" {
		return heading
	}
	return heading + " (" + roles + ")"
}

func requirement(f *pflag.Flag) string {
	if isRequired(f) {
		return " (required)"
	}
	for _, other := range f.Annotations[oneOf] {
		return " (this or --" + other + " is required)"
	}
	return ""
}
