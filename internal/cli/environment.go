package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// VariablePrefix is the prefix of every variable of the program.
	VariablePrefix = "LUMENHOOK_"
	// TestVariables is the prefix of those of its tests, which are ignored.
	TestVariables = VariablePrefix + "TEST_"
	// activeHelp is set by cobra's completion scripts of fish and PowerShell whenever they ask
	// the program. It sets nothing here, and is no mistake of a person.
	activeHelp = VariablePrefix + "ACTIVE_HELP"
)

// Variable returns the name of the variable that sets a flag.
func Variable(flag string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets flags that were not given from their variables, and returns a fault
// for every invalid value.
func fromEnvironment(flags *pflag.FlagSet) (faults []error) {
	flags.VisitAll(func(f *pflag.Flag) {
		value, set := os.LookupEnv(Variable(f.Name))
		if !set || f.Changed || isHelp(f) {
			return
		}
		if err := setFrom(flags, f, value, Variable(f.Name)); err != nil {
			faults = append(faults, fmt.Errorf("%s=%q: %s", Variable(f.Name), value, Form(f)))
		}
	})
	return faults
}

// FromEnvironment sets flags that were not given from their variables, as a command line does.
func FromEnvironment(flags *pflag.FlagSet) error {
	return errors.Join(fromEnvironment(flags)...)
}

// unknownVariables returns a fault for every variable with the program's prefix that is
// neither of a flag of any subcommand nor read elsewhere.
func unknownVariables(root *cobra.Command, elsewhere, environment []string) (faults []error) {
	known := append(slices.Clone(elsewhere), activeHelp)
	walk(root, func(c *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { known = append(known, Variable(f.Name)) })
		}
	})
	for _, entry := range slices.Sorted(slices.Values(environment)) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, VariablePrefix) || strings.HasPrefix(name, TestVariables) ||
			slices.Contains(known, name) || ofKubernetes(name, value) {
			continue
		}
		faults = append(faults, errors.New(name+" sets nothing"+orUnset(DidYouMean(name, known, ""))))
	}
	return faults
}

func orUnset(said string) string {
	if said == "" {
		return ": unset it, or see the flags of the command with --help"
	}
	return said
}

// Kubernetes returns every container variables for each service of its namespace. A
// service that is named lumenhook, or lumenhook-api, has the program's prefix.
var (
	serviceVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|` +
		`PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	serviceAddress = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

func ofKubernetes(name, value string) bool {
	name = "_" + strings.TrimPrefix(name, VariablePrefix)
	return serviceVariable.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && serviceAddress.MatchString(value)
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}
