package apicli

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
)

// A code alone doesn't identify an asset, because anyone may issue an asset with that code. The
// error must show the format of the flag, both for a new watch and for a change.
func TestAnAssetWithoutItsIssuerIsAFault(t *testing.T) {
	for assets, want := range map[string]string{
		"XLM":     "",
		"USDC:G…": "", // the API checks the address
		"XLM,USDC": `--asset "USDC": must be XLM or CODE:ISSUER, where ISSUER is the address (G…) of ` +
			"the issuing account",
	} {
		var f Watch
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		f.Register(flags)
		if err := flags.Parse([]string{"--asset", assets}); err != nil {
			t.Fatal(err)
		}
		_, createErr := f.Create()
		_, patchErr := f.Patch()
		for _, err := range []error{createErr, patchErr} {
			got := ""
			if err != nil {
				got = cli.Explain(err, flags)
			}
			if got != want {
				t.Errorf("%s: it was told %q and not %q", assets, got, want)
			}
		}
	}
}
