package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The pool of idle connections must exceed the number of attempts in flight, even if that is larger
// than usual.
func TestConnectionsStayForAllAttempts(t *testing.T) {
	for _, args := range [][]string{nil, {"--attempts-in-flight", "3000"}} {
		var s Node
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		s.Register(flags, "info")
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		cfg := s.Config()
		most := 4 * cfg.Engine.AttemptsInFlight
		if cfg.Egress.MaxIdlePerHost < most || cfg.Egress.MaxIdle < most {
			t.Errorf("%v: %d connections stay, %d to one host, for %d attempts", args, cfg.Egress.MaxIdle,
				cfg.Egress.MaxIdlePerHost, most)
		}
	}
}

func TestSettingsOfTheHistoryNameTheirFaults(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "",
		"--history-retention=90d":  "",
		"--history-retention=0":    "",
		"--history-retention=6d":   "--history-retention \"6d\": projections: a retention of 6d is too short",
		"--history-retention=long": "--history-retention \"long\": must be days such as 90d",
	} {
		var s Node
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		s.Register(flags, "info")
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := errors.Join(s.Check()...); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, not %q", args, got, want)
		}
	}
}
