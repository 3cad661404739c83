package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
)

// The commands with the most flags show only the ten most important ones, unless --help-all is
// given.
func TestABriefHelpHasTenFlags(t *testing.T) {
	flag := regexp.MustCompile(`(?m)^ +--[a-z-]+`)
	for _, command := range []string{"run", "serve"} {
		shown := func(help string) int {
			var out bytes.Buffer
			root := newRoot()
			root.SetOut(&out)
			line := cli.Line{Root: root, Args: []string{command, help}, Stderr: io.Discard}
			if code := cli.Execute(t.Context(), line); code != 0 {
				t.Fatalf("%s %s ended with %d", command, help, code)
			}
			return len(flag.FindAllString(out.String(), -1))
		}
		// --help-all itself is the eleventh; -h, --help is not counted.
		if brief, all := shown("--help"), shown("--help-all"); brief != 11 || all < 60 {
			t.Errorf("%s: --help shows %d flags, and --help-all %d", command, brief, all)
		}
	}
}

func TestEachSectionIsTheHelpOfACommand(t *testing.T) {
	shown := make(map[string]bool)
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		shown[strings.TrimPrefix(c.CommandPath(), rootName+" ")] = true
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(newRoot())
	for name, h := range helps {
		if !shown[name] {
			t.Errorf("help.txt has the section %q, and there is no such command", name)
		}
		if h.short == "" || strings.HasSuffix(h.short, ".") {
			t.Errorf("the short description of %q is %q", name, h.short)
		}
	}
}
