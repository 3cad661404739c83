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
	ExitUsage   = 2 // the command line is invalid, and nothing was done
	ExitDiffers = 3 // a comparison found differences
)

// Line is a command line.
type Line struct {
	Root *cobra.Command
	Args []string // without the program's name
	// Elsewhere names variables with the program's prefix that are no flag's.
	Elsewhere []string
	Stderr    io.Writer
}

// Usage marks a usage fault that a command finds itself.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Differs marks that a comparison found differences, which is no failure of the command.
func Differs(err error) error { return differsError{err} }

type differsError struct{ error }

func (e differsError) Unwrap() error { return e.error }

// EndsWith makes a command end with an exit code of its own, after it has printed why.
func EndsWith(code int) error { return endsWith(code) }

type endsWith int

func (e endsWith) Error() string { return fmt.Sprintf("ended with %d", int(e)) }

// Execute executes a command line, prints its error, and returns the exit code.
func Execute(ctx context.Context, line Line) int {
	line.Root.SetOut(Plain(line.Root.OutOrStdout()))
	line.Root.SetErr(Plain(line.Root.ErrOrStderr()))
	line.Stderr = Plain(line.Stderr)
	began := false // an error before that is one of the command line
	line.prepare(&began)
	command, err := line.Root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if code, said := errors.AsType[endsWith](err); said {
		return int(code)
	}
	fmt.Fprintln(line.Stderr, line.Root.Name()+": "+Explain(err, command.Flags()))
	if errors.As(err, new(differsError)) {
		return ExitDiffers
	}
	if began && !errors.As(err, new(usageError)) && !isInvalid(err, command.Flags()) {
		return ExitFailure
	}
	fmt.Fprintf(line.Stderr, "See `%s --help`.\n", command.CommandPath())
	return ExitUsage
}

// prepare applies the same rules to every command of the tree.
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

// settle sets flags that were not given from variables, secrets and a file, and checks the
// result against what the command requires. What a command checks itself before it runs
// (PreRunE) is reported with the rest.
func (l Line) settle(c *cobra.Command, args []string) error {
	if c.HasSubCommands() {
		return nil // it only prints its help
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

// valueless returns the fault of a flag whose value is the next flag: that of a variable which is
// not set, and therefore no word of the command line.
func valueless(c *cobra.Command) (fault error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		next, is := strings.CutPrefix(f.Value.String(), "--")
		name, _, _ := strings.Cut(next, "=")
		if is && fault == nil && c.Flags().Lookup(name) != nil {
			fault = fmt.Errorf("--%s has no value: --%s follows it; is the variable that it was to come "+
				"from set?", f.Name, name)
		}
	})
	return fault
}

// Require marks flags that a command line must give.
func Require(c *cobra.Command, names ...string) {
	for _, name := range names {
		annotate(c.Flags().Lookup(name), cobra.BashCompOneRequiredFlag, "true")
	}
}

// oneOf is the annotation of a flag that another flag can replace.
const oneOf = "lumenhook_one_of"

// RequireOneOf requires one of two flags of a command.
func RequireOneOf(c *cobra.Command, name, other string) {
	annotate(c.Flags().Lookup(name), oneOf, other)
}

// missing returns a fault for every required flag that is missing.
func missing(c *cobra.Command) (faults []error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		for _, other := range f.Annotations[oneOf] {
			if !f.Changed && !c.Flags().Changed(other) {
				faults = append(faults, fmt.Errorf("--%s or --%s must be given: %s", f.Name, other, f.Usage))
			}
		}
		if isRequired(f) && !f.Changed {
			faults = append(faults, fmt.Errorf("--%s must be given: %s", f.Name, f.Usage))
		}
	})
	return faults
}

func isRequired(f *pflag.Flag) bool {
	return slices.Equal(f.Annotations[cobra.BashCompOneRequiredFlag], []string{"true"})
}

// flagFault rewords pflag's error.
func (l Line) flagFault(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		if at, rest, findErr := l.Root.Find(l.Args); findErr == nil && at.HasSubCommands() &&
			len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			return oneSubcommand(at, rest) // the flag belongs to a command whose name is wrong
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
		return fmt.Errorf("--%s needs a value: %s", bare.GetSpecifiedName(), bare.GetFlag().Usage)
	}
	return err
}

// Form says what the value of a flag must be.
func Form(f *pflag.Flag) string {
	if v, is := f.Value.(*value); is {
		return v.form
	}
	switch f.Value.Type() {
	case "bool":
		return "must be true or false"
	case "duration":
		return "must be a time such as 500ms, 30s, 10m or 24h"
	case "int", "int32", "int64":
		return "must be a whole number"
	case "int32Slice":
		return "must be a whole number, or several with commas between them"
	case "stringSlice", "stringArray":
		return "must be a list"
	case "string":
		return "must be one value"
	case "uint", "uint32", "uint64":
		return "must be a whole number that is not negative"
	}
	return "must be of the form " + f.Value.Type()
}

// helpCommand is cobra's, except that an unknown topic is a fault.
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
	return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), said)
}

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
