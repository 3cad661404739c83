package nodeflags

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestSettingsOfTheHistoryNameTheirFaults(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "",
		"--history-retention=90d":  "",
		"--history-retention=0":    "",
		"--history-retention=6d":   "--history-retention \"6d\": projections: a retention of 144h0m0s is too short",
		"--history-retention=long": "--history-retention \"long\": must be days such as 90d",
		"--history-block-rows=0":   "--history-block-rows 0: must be from 1 to 1000000",
		"--history-block-wait=2h":  "--history-block-wait 2h0m0s: must be from 1ms to 1m",
		"--history-lag-max=0":      "--history-lag-max 0: must be at least 1",
		"--history-lag-max=0 --history-block-rows=0": "--history-block-rows 0",
	} {
		var s historyFlags
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		s.register(flags)
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := errors.Join(s.check()...); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, not %q", args, got, want)
		}
	}
}
