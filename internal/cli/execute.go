package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of the program, other than 0.
const (
	ExitFailure = 1 // the command failed
	ExitUsage   = 2 // the command line is invalid; nothing was done
	ExitDiffers = 3 // a comparison found differences
)

// Line is a command line.
type Line struct {
	Root *cobra.Command
	Args []string // without the program's name
	// Elsewhere lists variables with the program's prefix that belong to no flag.
	Elsewhere []string
	Stderr    io.Writer
	Failed    func(c *cobra.Command, why string) // gets the error too; may be nil
}

// Usage marks an error that a command finds itself as a usage error.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Differs marks an error that reports the differences found by a comparison.
func Differs(err error) error { return differsError{err} }

type differsError struct{ error }

func (e differsError) Unwrap() error { return e.error }

// EndsWith returns an error that sets the exit code and prints nothing.
func EndsWith(code int) error { return endsWith(code) }

type endsWith int

func (e endsWith) Error() string { return fmt.Sprintf("ended with %d", int(e)) }

// Execute runs a command line, prints its error and returns the exit code.
func Execute(ctx context.Context, line Line) int {
	line.Root.SetOut(Plain(line.Root.OutOrStdout()))
	line.Root.SetErr(Plain(line.Root.ErrOrStderr()))
	line.Stderr = Plain(line.Stderr)
	began := false // an error before this point is a fault of the command line
	line.prepare(&began)
	command, err := line.Root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if code, said := errors.AsType[endsWith](err); said {
		return int(code)
	}
	why := Explain(err, command.Flags())
	fmt.Fprintln(line.Stderr, line.Root.Name()+": "+why)
	if line.Failed != nil {
		line.Failed(command, OneLine(why))
	}
	if errors.As(err, new(differsError)) {
		return ExitDiffers
	}
	if began && !errors.As(err, new(usageError)) && !isInvalid(err, command.Flags()) {
		return ExitFailure
	}
	fmt.Fprintf(line.Stderr, "See `%s --help`.\n", command.CommandPath())
	return ExitUsage
}

// prepare sets up every command of the tree.
func (l Line) prepare(began *bool) {
	root := l.Root
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(l.Args)
	root.SetFlagErrorFunc(l.flagFault)
	root.SetUsageFunc(usage)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(l.Args...)
	root.PersistentPreRunE = l.settle
	walk(root, func(c *cobra.Command) {
		if c.HasSubCommands() && !c.Runnable() {
			c.Args = oneSubcommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
		check := c.Args
		if check == nil {
			check = argumentsOf(c)
		}
		c.Args = func(c *cobra.Command, args []string) error {
			if err := valueless(c); err != nil {
				return err
			}
			return check(c, args)
		}
		if run := c.RunE; run != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				*began = true
				return run(c, args)
			}
		}
	})
}

func (l Line) settle(c *cobra.Command, args []string) error {
	if c.HasSubCommands() {
		return nil // only prints its help
	}
	faults := unknownVariables(l.Root, l.Elsewhere, os.Environ())
	faults = append(faults, fromEnvironment(c.Flags())...)
	faults = append(faults, fromFiles(settingsOf(c, l.Root))...)
	faults = append(faults, missing(c)...)
	if check := c.PreRunE; check != nil {
		c.PreRunE = nil
		faults = append(faults, check(c, args))
	}
	return errors.Join(faults...)
}

// valueless detects a flag that took the next flag as its value, which happens if a shell variable
// is unset.
func valueless(c *cobra.Command) (fault error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		next, is := strings.CutPrefix(f.Value.String(), "--")
		name, _, _ := strings.Cut(next, "=")
		if is && fault == nil && c.Flags().Lookup(name) != nil {
			fault = fmt.Errorf("--%s has no value and is followed by --%s; is the shell variable for its "+
				"value set?", f.Name, name)
		}
	})
	return fault
}

// Require marks flags as required.
func Require(c *cobra.Command, names ...string) {
	for _, name := range names {
		annotate(c.Flags().Lookup(name), cobra.BashCompOneRequiredFlag, "true")
	}
}

const oneOf = "lumenhook_one_of"

// RequireOneOf requires at least one of two flags.
func RequireOneOf(c *cobra.Command, name, other string) {
	annotate(c.Flags().Lookup(name), oneOf, other)
}

// missing returns an error for every required flag that is missing.
func missing(c *cobra.Command) (faults []error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		for _, other := range f.Annotations[oneOf] {
			if !f.Changed && !c.Flags().Changed(other) {
				faults = append(faults, fmt.Errorf("--%s or --%s is required: %s", f.Name, other, f.Usage))
			}
		}
		if isRequired(f) && !f.Changed {
			faults = append(faults, fmt.Errorf("--%s is required: %s", f.Name, f.Usage))
		}
	})
	return faults
}

func isRequired(f *pflag.Flag) bool {
	return slices.Equal(f.Annotations[cobra.BashCompOneRequiredFlag], []string{"true"})
}

func (l Line) flagFault(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		if at, rest, findErr := l.Root.Find(l.Args); findErr == nil && at.HasSubCommands() &&
			len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			return oneSubcommand(at, rest) // the flag belongs to a misspelled command
		}
		if unknown.GetSpecifiedShortnames() != "" {
			return fmt.Errorf("unknown flag -%s for %q", unknown.GetSpecifiedName(), c.CommandPath())
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		return fmt.Errorf("unknown flag --%s for %q%s", unknown.GetSpecifiedName(), c.CommandPath(),
			didYouMeanFlag(unknown.GetSpecifiedName(), names))
	case errors.As(err, &value):
		return fmt.Errorf("--%s %q: %s", value.GetFlag().Name, value.GetValue(), Form(value.GetFlag()))
	case errors.As(err, &bare):
		return fmt.Errorf("--%s requires a value: %s", bare.GetSpecifiedName(), bare.GetFlag().Usage)
	}
	return err
}

// Form describes the valid values of a flag, such as "must be true or false".
func Form(f *pflag.Flag) string {
	if v, is := f.Value.(*value); is {
		return v.form
	}
	switch f.Value.Type() {
	case "bool":
		return "must be true or false"
	case "duration":
		return "must be a duration such as 500ms, 30s, 10m or 24h"
	case "int", "int32", "int64":
		return "must be a whole number"
	case "int32Slice":
		return "must be a whole number or a comma-separated list of them"
	case "stringSlice", "stringArray":
		return "must be a list"
	case "string":
		return "must be one value"
	case "uint", "uint32", "uint64":
		return "must be a whole number that is not negative"
	}
	return "must be of the form " + f.Value.Type()
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show help for a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			at, rest, err := c.Root().Find(args)
			if err == nil {
				err = oneSubcommand(at, rest)
			}
			if err != nil {
				return Usage(err)
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// nameOf returns the name of a command without the program's name, which starts every message.
func nameOf(c *cobra.Command) string {
	if !c.HasParent() {
		return "the program"
	}
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

// argumentsOf derives the check of the arguments from the use line: none, ID, or [ID].
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

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q", nameOf(c), strings.Join(args, " "))
	}
	return nil
}

// OneArgument requires exactly the one argument in the command's use line.
func OneArgument(c *cobra.Command, args []string) error {
	name := strings.Fields(c.Use)[1]
	switch len(args) {
	case 0:
		return fmt.Errorf("%s requires one %s, got no argument", nameOf(c), name)
	case 1:
	default:
		return fmt.Errorf("%s requires one %s, got %d arguments", nameOf(c), name, len(args))
	}
	if args[0] == "" {
		return isEmpty(name)
	}
	return nil
}

func optionalArgument(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes at most one argument, got %d; put an argument with spaces "+
			"in quotes", nameOf(c), len(args))
	}
	if len(args) == 1 && args[0] == "" {
		return isEmpty("the argument")
	}
	return nil
}

func isEmpty(name string) error {
	return fmt.Errorf("%s is empty; is the shell variable for its value set?", name)
}

// oneSubcommand returns an error for an unknown subcommand.
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
		said = " (known: " + strings.Join(names, ", ") + ")"
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), said)
}

// Nearest returns the names that cobra suggests for a word: those that start with it or differ in
// at most two letters, and in at most half of its letters. It removes duplicates.
func Nearest(word string, names []string) []string {
	c := &cobra.Command{SuggestionsMinimumDistance: max(1, min(2, len(word)/2))}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		c.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return c.SuggestionsFor(word)
}

// DidYouMean returns a suggestion to append to an error about an unknown word.
func DidYouMean(word string, names []string, before string) string {
	nearest := Nearest(word, names)
	if len(nearest) == 0 {
		return ""
	}
	return "; did you mean " + before + strings.Join(nearest, " or "+before) + "?"
}

const flagsListedMax = 4

// didYouMeanFlag returns a suggestion to append to an error about an unknown flag. Some commands
// have one flag (--memo) where others have several (--memo-text, --memo-id, --memo-hash), so each
// form suggests the other.
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
	if last := len(several) - 1; last > 0 && last < flagsListedMax {
		return "; did you mean " + strings.Join(several[:last], ", ") + " or " + several[last] + "?"
	}
	return cmp.Or(DidYouMean(word, names, "--"), one)
}
