package nodeflags

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestConnectionsStayForAllAttempts holds what is kept idle against what may be under way, also
// of more attempts than usual.
func TestConnectionsStayForAllAttempts(t *testing.T) {
	for _, args := range [][]string{nil, {"--attempts-in-flight", "3000"}} {
		var s Flags
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
