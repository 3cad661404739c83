package domain_test

import (
	"math"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func TestValuesInWords(t *testing.T) {
	usd := domain.Asset{Code: "USD", Issuer: "GISSUER"}
	answer := func(status int, err domain.AttemptError, detail string) string {
		return domain.AttemptResult{StatusCode: status, Error: err, ErrorDetail: detail}.Answer()
	}
	for got, want := range map[string]string{
		domain.FormatAmount(-15_000_001):              "-1.5000001",
		domain.FormatAmount(math.MinInt64):            "-922337203685.4775808",
		domain.NativeAsset().String():                 "XLM",
		usd.String():                                  "USD:GISSUER",
		domain.BalanceMove{Asset: usd}.BalanceName():  "USD:GISSUER",
		domain.BalanceMove{Pool: "abc"}.BalanceName(): "pool:abc",
		answer(0, "", ""):                             "no answer",
		answer(503, "", "ignored without an error"):   "HTTP 503",
		answer(200, "UNKNOWN", ""):                    "HTTP 200, UNKNOWN",
		answer(0, "DNS", "resolve the host name"):     "no answer, DNS (resolve the host name)",
		domain.ErrForked.Error():                      "the network was reset or forked",
		domain.Secret("whsec_1").String():             "[redacted]",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if n := (domain.BalanceMove{BeforeStroops: 7, AfterStroops: 3}).ChangeStroops(); n != -4 {
		t.Errorf("the balance changed by %d", n)
	}
	if domain.NativeAsset().IsNative() == usd.IsNative() {
		t.Error("only XLM has no issuer")
	}
}

// Only a history that is behind is temporary, so the command can be sent again.
func TestOnlyAHistoryThatIsBehindIsTemporary(t *testing.T) {
	var none *domain.Rejection
	behind := &domain.Rejection{Code: domain.CodeHistoryBehind}
	other := &domain.Rejection{Code: domain.CodeNotFound}
	if none.Temporary() || !behind.Temporary() || other.Temporary() {
		t.Error("wrong about which rejection is temporary")
	}
}
