package domain_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// FuzzVerify checks that Verify never panics, and succeeds only if the header contains a
// signature of the body by one of the secrets, whatever else it contains.
func FuzzVerify(f *testing.F) {
	const now = 1_700_000_000
	secrets := []domain.Secret{"whsec_one", "whsec_two"}
	body := []byte(`{"id":"evt_1"}`)
	f.Add(domain.SignatureHeader(secrets, now, body), "1700000000", body)
	f.Add("v1=,v1=zz, v1=00,v2="+domain.Sign("whsec_one", now, body), "1700000300", body)
	f.Add(" v1="+strings.ToUpper(domain.Sign("whsec_two", now, body))+" ", "001700000000", []byte{})
	f.Fuzz(func(t *testing.T, header, timestamp string, body []byte) {
		if domain.Verify(header, timestamp, body, secrets, now) != nil {
			return
		}
		seconds, err := strconv.ParseInt(timestamp, 10, 64)
		if err != nil || len(timestamp) > 12 || seconds < now-300 || seconds > now+300 {
			t.Fatalf("the timestamp %q passes", timestamp)
		}
		if domain.Verify(header, timestamp, append(body, 'x'), secrets, now) == nil {
			t.Fatalf("%q fits another body too", header)
		}
		if domain.Verify(header, timestamp, body, []domain.Secret{"whsec_three"}, now) == nil {
			t.Fatalf("%q fits another secret too", header)
		}
	})
}

// FuzzValues checks that amounts, memos, keys and ids are either rejected or parsed, and that a
// parsed value has only one spelling.
func FuzzValues(f *testing.F) {
	for _, s := range []string{
		"12.5", "922337203685.4775807", "0", "-1", "1e7", "order-1",
		"18446744073709551615", strings.Repeat("ab", 32),
		domain.NewAPIKey(false, [32]byte{1}), domain.NewID("evt_", [16]byte{1}),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if stroops, err := domain.ParseAmount(s); err == nil {
			again, err := domain.ParseAmount(domain.FormatAmount(stroops))
			if err != nil || again != stroops || stroops < 0 {
				t.Fatalf("%q is %d, then %d (%v)", s, stroops, again, err)
			}
		}
		for _, kind := range []domain.MemoType{domain.MemoText, domain.MemoID, domain.MemoHash, "other"} {
			memo, err := domain.ParseMemo(kind, s)
			if err != nil {
				continue
			}
			if again, err := domain.ParseMemo(kind, memo.String()); err != nil ||
				string(again.Raw) != string(memo.Raw) {
				t.Fatalf("the %s memo %q is %q, then %q (%v)", kind, s, memo, again, err)
			}
		}
		if domain.WellFormedAPIKey(s) && (len(s) != len("whk_test_")+60 || s != strings.ToLower(s)) {
			t.Fatalf("%q passes for an API key", s)
		}
		if domain.IsID(domain.EndpointPrefix, s) && len(s) != len(domain.EndpointPrefix)+26 {
			t.Fatalf("%q passes for an id", s)
		}
	})
}
