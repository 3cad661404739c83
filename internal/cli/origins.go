package cli

import (
	"cmp"

	"github.com/spf13/pflag"
)

// Annotations of flags.
const (
	originKey = "lumenhook_origin" // origin of a value, unless it is the command line
	answerKey = "lumenhook_answer" // it controls how an answer is printed
	secretKey = "lumenhook_secret" // the value is not to be shown
	// headingKey has the heading of the help under which the flag stands.
	headingKey = "lumenhook_heading"
	// rolesKey has the roles that use the flag; empty: all.
	rolesKey = "lumenhook_roles"
	// furtherKey marks a flag that --help leaves out, shownKey that --help-all was given.
	furtherKey = "lumenhook_further"
	shownKey   = "lumenhook_shown"
	// sharedKey marks --config of a command that uses the file of another, notSharedKey a
	// flag that such a file does not set.
	sharedKey    = "lumenhook_shared"
	notSharedKey = "lumenhook_not_shared"
)

// Secret marks flags whose values are not shown.
func Secret(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		annotate(flags.Lookup(name), secretKey, "true")
	}
}

// isSetting reports whether a flag says what to do, rather than how to print the answer.
func isSetting(f *pflag.Flag) bool { return len(f.Annotations[answerKey]) == 0 }

func isSecret(f *pflag.Flag) bool { return len(f.Annotations[secretKey]) > 0 }

func annotate(f *pflag.Flag, key, value string) {
	if f.Annotations == nil {
		f.Annotations = make(map[string][]string)
	}
	f.Annotations[key] = []string{value}
}

// OnCommandLine reports whether a flag was given on the command line, and not by a variable
// or a file that others read too.
func OnCommandLine(flags *pflag.FlagSet, name string) bool {
	f := flags.Lookup(name)
	return f.Changed && len(f.Annotations[originKey]) == 0
}

// setFrom sets a flag from another origin than the command line.
func setFrom(flags *pflag.FlagSet, f *pflag.Flag, value, origin string) error {
	if err := flags.Set(f.Name, value); err != nil {
		return err
	}
	annotate(f, originKey, origin)
	return nil
}

// Setting is the effective value of a flag.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // "default", a variable, a file, or a flag
}

// originOf returns where a value was given: a variable, a file, or the flag itself.
func originOf(f *pflag.Flag) string {
	if from := f.Annotations[originKey]; len(from) > 0 {
		return cmp.Or(from[0], "--"+f.Name)
	}
	return "--" + f.Name
}

const masked = "********"

// Effective lists the values of flags, with their origins. Secrets are masked.
func Effective(flags *pflag.FlagSet) (settings []Setting) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || isHelp(f) || !isSetting(f) {
			return
		}
		s := Setting{Name: f.Name, Value: f.Value.String(), From: "default"}
		if f.Changed {
			s.From = originOf(f)
		}
		if isSecret(f) && s.Value != "" {
			s.Value = masked
		}
		settings = append(settings, s)
	})
	return settings
}
