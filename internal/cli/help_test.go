package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help must group flags under headings, fit a terminal, and mark required flags.
func TestTheHelpGroupsFlags(t *testing.T) {
	root := &cobra.Command{Use: "prog", Short: "Pets"}
	c := &cobra.Command{Use: "adopt", RunE: func(*cobra.Command, []string) error { return nil }}
	f := c.Flags()
	f.String("name", "", "what it is called")
	f.String("story", "", strings.TrimSpace(strings.Repeat("word ", 40)))
	Group(f, "Food", func(f *pflag.FlagSet) {
		f.String("dry", "", "dry food")
		f.String("wet", "", "wet food")
		Group(f, "Water", func(f *pflag.FlagSet) { f.Int("bowls", 2, "how many bowls") })
	})
	Group(f, "Food", func(f *pflag.FlagSet) { f.Bool("treats", false, "with treats") })
	Group(f, "Tests", func(f *pflag.FlagSet) { f.Bool("hidden", false, "for tests") })
	_ = f.MarkHidden("hidden")
	_ = c.MarkFlagRequired("name")
	RequireOneOf(c, "dry", "wet")
	root.PersistentFlags().Bool("json", false, "print JSON")
	root.AddCommand(c)
	var out bytes.Buffer
	root.SetOut(&out)
	line := Line{Root: root, Args: []string{"adopt", "--help"}, Stderr: &out}
	if code := Execute(context.Background(), line); code != 0 {
		t.Fatalf("it ended with %d: %s", code, &out)
	}
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	want := `Usage:
  prog adopt [flags]

Flags:
  -h, --help           help for adopt
      --name string    what it is called (required)
      --story string   ` + words(14) + `
                       ` + words(14) + `
                       ` + words(12) + `

Food:
      --dry string   dry food (this or --wet is required)
      --treats       with treats
      --wet string   wet food

Water:
      --bowls int   how many bowls (default 2)

Global Flags:
      --json   print JSON
`
	if got := out.String(); got != want {
		t.Errorf("the help is\n%s\nand should be\n%s", got, want)
	}
}

// A command with many flags shows only the important ones, and all of them on request, with the
// roles that use them. The help flags aren't settings.
func TestABriefHelp(t *testing.T) {
	help := func(args ...string) string {
		root := &cobra.Command{Use: "prog"}
		c := &cobra.Command{Use: "adopt", RunE: func(*cobra.Command, []string) error { return nil }}
		f := c.Flags()
		f.String("name", "", "what it is called")
		f.String("roles", "", "who does it")
		f.Int("bowls", 2, "how many bowls")
		Describe(f.Lookup("bowls"), "Food", "keeper", false)
		Brief(f, "name", "roles")
		f.Bool("json", false, "print JSON")
		root.AddCommand(c)
		var out bytes.Buffer
		root.SetOut(&out)
		args = append([]string{"adopt"}, args...)
		line := Line{Root: root, Args: args, Stderr: &out}
		if code := Execute(context.Background(), line); code != 0 {
			t.Fatalf("it ended with %d: %s", code, &out)
		}
		for _, s := range Effective(f) {
			if s.Name == helpAll {
				t.Errorf("--%s is a setting", helpAll)
			}
		}
		return out.String()
	}
	t.Setenv(Variable(helpAll), "true") // like --help, it isn't a setting
	if said := help(); said != "" {
		t.Errorf("it printed\n%s", said)
	}
	brief, all := help("--help"), help("--help-all")
	for _, want := range []string{"--name", "--json", "`prog adopt --help-all` shows all of them"} {
		if !strings.Contains(brief, want) {
			t.Errorf("the brief help does not say %q:\n%s", want, brief)
		}
	}
	if strings.Contains(brief, "bowls") || strings.Contains(all, "shows all of them") {
		t.Errorf("the brief help is\n%s\nand all of it is\n%s", brief, all)
	}
	if !strings.Contains(all, "\nFood (keeper):\n      --bowls int") {
		t.Errorf("the help of all flags is\n%s", all)
	}
}
