package completion

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Register gives every flag, and every word, of a tree of commands what it is completed by.
func Register(root *cobra.Command) {
	for _, c := range root.Commands() {
		Register(c)
	}
	if root.ValidArgsFunction == nil && !root.HasSubCommands() {
		root.ValidArgsFunction = wordsOf(root)
	}
	for _, flags := range []*pflag.FlagSet{root.Flags(), root.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { registerFlag(root, f) })
	}
}

func registerFlag(c *cobra.Command, f *pflag.Flag) {
	if f.Value.Type() == "bool" {
		return
	}
	complete := valuesOf(c, f)
	if f.Value.Type() == "stringSlice" {
		complete = eachOf(complete)
	}
	// It fails only for a flag that is not there, or has a function already, which counts.
	_ = c.RegisterFlagCompletionFunc(f.Name, complete)
}

// valuesOf returns what the value of a flag is completed by.
func valuesOf(c *cobra.Command, f *pflag.Flag) cobra.CompletionFunc {
	name := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
	for _, of := range []string{name + " " + f.Name, f.Name} {
		if list, known := flagValues[of]; known {
			return cobra.FixedCompletions(list, directiveOf(list))
		}
		if ids, known := flagIDs[of]; known {
			return ids.complete
		}
		if directive, known := flagPaths[of]; known {
			return cobra.FixedCompletions(nil, directive)
		}
	}
	if strings.HasSuffix(f.Name, "-file") {
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.NoFileCompletions
}

// directiveOf has a value that ends with a colon be gone on with: no space is put behind it.
func directiveOf(list []cobra.Completion) cobra.ShellCompDirective {
	for _, one := range list {
		if value, _, _ := strings.Cut(one, "\t"); strings.HasSuffix(value, ":") {
			return cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
	}
	return cobra.ShellCompDirectiveNoFileComp
}

// flagPaths are flags that name files (ShellCompDirectiveDefault) or folders.
var flagPaths = map[string]cobra.ShellCompDirective{
	"config":          cobra.ShellCompDirectiveDefault,
	"body":            cobra.ShellCompDirectiveDefault,
	"webhook":         cobra.ShellCompDirectiveDefault,
	"egress-ca":       cobra.ShellCompDirectiveDefault,
	"api-tls-cert":    cobra.ShellCompDirectiveDefault,
	"api-tls-key":     cobra.ShellCompDirectiveDefault,
	"secret-out":      cobra.ShellCompDirectiveDefault,
	"events pull to":  cobra.ShellCompDirectiveDefault,
	"data-dir":        cobra.ShellCompDirectiveFilterDirs,
	"secrets-dir":     cobra.ShellCompDirectiveFilterDirs,
	"scratch":         cobra.ShellCompDirectiveFilterDirs,
	"ledger-lake":     cobra.ShellCompDirectiveFilterDirs,
	"stellar-lake":    cobra.ShellCompDirectiveFilterDirs,
	"man to":          cobra.ShellCompDirectiveFilterDirs,
	"backup to":       cobra.ShellCompDirectiveFilterDirs,
	"restore from":    cobra.ShellCompDirectiveFilterDirs,
	"devnet cert out": cobra.ShellCompDirectiveFilterDirs,
}

// wordsOf returns what the word is completed by that a command's use line names.
func wordsOf(c *cobra.Command) cobra.CompletionFunc {
	words := strings.Fields(c.Use)
	if len(words) < 2 {
		return cobra.NoFileCompletions
	}
	word := strings.Trim(words[1], "[]")
	switch {
	case word == "FILE…":
		return nil // the shell completes files
	case word == "NAME" && c.Parent().Name() == "topics":
		return once(cobra.FixedCompletions(topicNames(), cobra.ShellCompDirectiveNoFileComp))
	case word == "KEY_ID" && c.Parent().Name() != "keys":
		return cobra.NoFileCompletions // of a file of keys
	}
	if ids, known := wordIDs[word]; known {
		return once(ids.complete)
	}
	return cobra.NoFileCompletions
}

// once completes the first word alone.
func once(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) (
		[]cobra.Completion, cobra.ShellCompDirective,
	) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, word)
	}
}

// eachOf completes the last of several values with commas between them, by those that are not
// among them.
func eachOf(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) (
		[]cobra.Completion, cobra.ShellCompDirective,
	) {
		list, directive := complete(c, args, word)
		comma := strings.LastIndex(word, ",")
		if comma < 0 {
			return list, directive
		}
		given := strings.Split(word[:comma], ",")
		var more []cobra.Completion
		for _, one := range list {
			if value, _, _ := strings.Cut(one, "\t"); !slices.Contains(given, value) {
				more = append(more, word[:comma+1]+one)
			}
		}
		return more, directive
	}
}
