package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// endsWith3 lists the commands that compare, and exit with 3 if they find a difference or a gap.
// Their help says so, and no other help does.
var endsWith3 = map[string]bool{
	"topics plan": true, "topics create": true, "verify-projection": true, "ledger check": true,
	"ledger sources": true, "coverage": true, "statement": true, "reconcile": true,
	"verify-receipt": true,
}

func TestTheHelpSaysWhatACommandEndsWith(t *testing.T) {
	leaves := make(map[string]*cobra.Command)
	collect(newRoot(), leaves)
	for name, c := range leaves {
		if said := strings.Contains(strings.Join(strings.Fields(c.Long),
			" "), "with 3"); said != endsWith3[name] {
			t.Errorf("the help of %s says that it may end with 3: %t, and the table says %t", name, said,
				endsWith3[name])
		}
	}
	for name := range endsWith3 {
		if leaves[name] == nil {
			t.Errorf("there is no command %s", name)
		}
	}
}

// pflag takes the name of a flag's value from the back-quoted part of its usage, so only a single
// word may be back-quoted there.
func TestTheHelpNamesAValueByOneWord(t *testing.T) {
	leaves := make(map[string]*cobra.Command)
	collect(newRoot(), leaves)
	for name, c := range leaves {
		_ = c.InheritedFlags() // adds them to c.Flags
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); strings.Contains(value, " ") {
				t.Errorf("%s: the value of --%s is called %q", name, f.Name, value)
			}
		})
	}
}

var byPlace = regexp.MustCompile(`(files|flags|one|ones) (above|below)`)

// Usage that refers to flags by position would be wrong in any other order. No two flags of a
// command may have the same usage.
func TestTheHelpIsRightInAnyOrder(t *testing.T) {
	leaves := make(map[string]*cobra.Command)
	collect(newRoot(), leaves)
	seen := make(map[string]string) // flags by usage
	for name, c := range leaves {
		_ = c.InheritedFlags()
		clear(seen)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if byPlace.MatchString(f.Usage) {
				t.Errorf("%s: --%s is said to be %q", name, f.Name, f.Usage)
			}
			if other := seen[f.Usage]; other != "" {
				t.Errorf("%s: --%s and --%s have one text: %q", name, other, f.Name, f.Usage)
			}
			seen[f.Usage] = f.Name
		})
	}
}

// A history that differs from its topics is not a failure of the command that compares them.
func TestAProjectionThatDiffersEndsWith3(t *testing.T) {
	for name, c := range map[string]struct {
		found writer.Verification
		code  int
	}{
		"the same": {writer.Verification{}, 0},
		"rows": {
			writer.Verification{Differences: []writer.Difference{{Table: "events"}}},
			cli.ExitDiffers,
		},
		"doubled": {writer.Verification{DoubledEvents: 1}, cli.ExitDiffers},
	} {
		root := &cobra.Command{Use: "lumenhook", RunE: func(*cobra.Command, []string) error {
			return reportVerification(io.Discard, c.found)
		}}
		code := cli.Execute(t.Context(), cli.Line{Root: root, Args: []string{}, Stderr: io.Discard})
		if code != c.code {
			t.Errorf("%s: ended with %d, not %d", name, code, c.code)
		}
	}
}
