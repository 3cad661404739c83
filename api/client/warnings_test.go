package client_test

import (
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

func TestAWarningIsExplained(t *testing.T) {
	for warning, want := range map[string]string{
		"DNS":               "The host name does not resolve yet",
		"NO_TRUSTLINE:USDC": "The wallet has no trustline for USDC",
		"ACCOUNT_NOT_FOUND": "The wallet's account does not exist",
		"LOOKUP_FAILED":     "The wallet could not be looked up",
		"TWIN_WATCH:wat_1":  "The watch wat_1 has the same wallet",
		"HEADER_DROPPED:X":  "The URL moved to another host or port, so the value of the header X",
		"OF_A_LATER_API:7":  "OF_A_LATER_API:7",
	} {
		if got := client.WarningDetail(warning); !strings.HasPrefix(got, want) {
			t.Errorf("%s means %q", warning, got)
		}
	}
}

func TestAReasonIsExplained(t *testing.T) {
	for _, reason := range []domain.Reason{
		domain.ReasonAssetNotAccepted, domain.ReasonAmountMismatch, domain.ReasonAmountTooLow,
		domain.ReasonAmountTooHigh, domain.ReasonMemoRequired, domain.ReasonMemoNotAllowed,
		domain.ReasonMemoTypeMismatch, domain.ReasonMemoMismatch, domain.ReasonSenderNotAllowed,
	} {
		if got := client.ReasonDetail(string(reason)); got == string(reason) {
			t.Errorf("%s has no meaning", reason)
		}
	}
	if got := client.ReasonDetails([]string{"OF_A_LATER_API"}); got[0] != "OF_A_LATER_API" {
		t.Errorf("an unknown reason means %q", got)
	}
}
