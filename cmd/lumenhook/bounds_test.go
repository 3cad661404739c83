package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/server"
	"github.com/lumenhook/lumenhook/internal/standalone"
)

var boundText = regexp.MustCompile(`(?:from|at least|at most|to|than|under|above) (-?[0-9][0-9a-z.]*)` +
	`|(-?[0-9][0-9a-z.]*) or (?:more|less)`)

// If run or serve rejects a value as too small or too large, the flag's help must state the bound.
func TestHelpNamesEveryBound(t *testing.T) {
	values := map[string][]string{
		"duration": {"-1s", "0", "1ns", "1000000h"},
		"int":      {"-1", "0", "2147483647"},
		"int32":    {"-1", "0", "2147483647"},
		"int64":    {"-1", "0", "9223372036854775807"},
		"uint32":   {"0", "4294967295"},
		"float64":  {"-1", "0", "1000000"},
		"string":   {"0s", "1s", "1d", "1000000d"}, // for flags that take days
	}
	found := 0
	for command, open := range map[string]func(*pflag.FlagSet) func() error{
		"run": func(f *pflag.FlagSet) func() error {
			s := new(standalone.Flags)
			s.Register(f)
			return func() error { return cli.Faults(s.Check()) }
		},
		"serve": func(f *pflag.FlagSet) func() error {
			s := new(server.Flags)
			s.Register(f)
			return s.Check
		},
	} {
		all := pflag.NewFlagSet(command, pflag.ContinueOnError)
		open(all)
		all.VisitAll(func(flag *pflag.Flag) {
			for _, value := range values[flag.Value.Type()] {
				one := pflag.NewFlagSet(command, pflag.ContinueOnError)
				check := open(one)
				if one.Set(flag.Name, value) != nil {
					continue // not a valid value of this type
				}
				err := check()
				if err == nil {
					continue
				}
				for line := range strings.Lines(err.Error()) {
					if !strings.HasPrefix(line, "--"+flag.Name+" ") {
						continue
					}
					_, reason, _ := strings.Cut(line, ": ")
					for _, bound := range boundText.FindAllStringSubmatch(reason, -1) {
						found++
						if number := bound[1] + bound[2]; !strings.Contains(flag.Usage, number) {
							t.Errorf("%s --%s %s is rejected by %s, which its help does not name: %s",
								command, flag.Name, value, number, flag.Usage)
						}
					}
				}
			}
		})
	}
	if found < 50 {
		t.Errorf("only %d bounds were found", found)
	}
}
