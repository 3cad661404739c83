package apicli

import (
	"strings"
	"testing"
)

func TestAWarningIsExplained(t *testing.T) {
	for warning, want := range map[string]string{
		"DNS":               "DNS: the host name does not resolve yet",
		"NO_TRUSTLINE:USDC": "NO_TRUSTLINE:USDC: the wallet does not trust this asset",
		"ACCOUNT_NOT_FOUND": "ACCOUNT_NOT_FOUND: the wallet's account does not exist",
		"LOOKUP_FAILED":     "LOOKUP_FAILED: the wallet could not be looked up",
		"OF_A_LATER_API":    "OF_A_LATER_API",
	} {
		if got := warningText(warning); !strings.HasPrefix(got, want) {
			t.Errorf("%s is printed as %q", warning, got)
		}
	}
}
