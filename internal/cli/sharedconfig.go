package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ShareConfig adds the same flags to a command that uses the files of those with
// RegisterConfig: it uses the settings that it has flags for, and ignores the others. If
// the flags exist already it does nothing.
func ShareConfig(flags *pflag.FlagSet) {
	if flags.Lookup(configFlag) != nil {
		return
	}
	flags.String(configFlag, "", "YAML file of lumenhook serve, of which the settings that "+
		"are flags of this command count")
	flags.String(secretsFlag, "", "folder of secrets, one a file, named as the flags are; "+
		"as with --config")
	annotate(flags.Lookup(configFlag), sharedKey, "true")
}

// NotShared prevents a shared file from setting a flag that means something else than the
// file's setting of its name.
func NotShared(flags *pflag.FlagSet, name string) {
	annotate(flags.Lookup(name), notSharedKey, "true")
}

// settings are the flags of a command that files may set.
type settings struct {
	*pflag.FlagSet
	shared bool
	// owners are the flags of the commands whose files are shared.
	owners []*pflag.FlagSet
}

// settingsOf returns the settings of a command; root has the commands whose files it may
// share.
func settingsOf(c, root *cobra.Command) settings {
	s := settings{FlagSet: c.Flags()}
	s.shared = isShared(s.Lookup(configFlag))
	walk(root, func(other *cobra.Command) {
		if f := other.Flags().Lookup(configFlag); f != nil && !isShared(f) {
			s.owners = append(s.owners, other.Flags())
		}
	})
	return s
}

func isShared(f *pflag.Flag) bool { return f != nil && len(f.Annotations[sharedKey]) > 0 }

// find returns the flag of a setting, nil if it is not the command's, and reports whether
// the setting exists at all.
func (s settings) find(name string) (f *pflag.Flag, known bool) {
	f = s.Lookup(name)
	if !s.shared {
		known = f != nil && isSetting(f)
		return f, known
	}
	known = slices.ContainsFunc(s.owners, func(owner *pflag.FlagSet) bool {
		of := owner.Lookup(name)
		return of != nil && isSetting(of)
	})
	if !known || f != nil && len(f.Annotations[notSharedKey]) > 0 {
		f = nil
	}
	return f, known
}

// visit calls a function with each flag that a file may set.
func (s settings) visit(each func(*pflag.Flag)) {
	named := s.owners
	if !s.shared {
		named = []*pflag.FlagSet{s.FlagSet}
	}
	for _, flags := range named {
		flags.VisitAll(func(f *pflag.Flag) {
			if isSetting(f) {
				each(f)
			}
		})
	}
}
