package rpc_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

func address(n byte) string {
	return strkey.MustEncode(strkey.VersionByteAccountID, slices.Repeat([]byte{n}, 32))
}

var (
	wallet = address(1)
	issuer = address(2)
	usd    = domain.Asset{Code: "USD", Issuer: issuer}
	euro   = domain.Asset{Code: "EURODOLLAR", Issuer: issuer}
	yen    = domain.Asset{Code: "YEN", Issuer: issuer}
	own    = domain.Asset{Code: "OWN", Issuer: wallet}
	xlm    = domain.NativeAsset()
)

func (n *node) put(t *testing.T, key xdr.LedgerKey, data xdr.LedgerEntryData) {
	t.Helper()
	k, err := xdr.MarshalBase64(key)
	if err != nil {
		t.Fatal(err)
	}
	d, err := xdr.MarshalBase64(data)
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.entries[k] = d
}

func (n *node) openAccount(t *testing.T, a string) {
	t.Helper()
	id := xdr.MustAddress(a)
	n.put(t,
		xdr.LedgerKey{Type: xdr.LedgerEntryTypeAccount, Account: &xdr.LedgerKeyAccount{AccountId: id}},
		xdr.LedgerEntryData{Type: xdr.LedgerEntryTypeAccount, Account: &xdr.AccountEntry{AccountId: id}})
}

func (n *node) trust(t *testing.T, a string, asset domain.Asset, flags xdr.TrustLineFlags) {
	t.Helper()
	id, line := xdr.MustAddress(a), xdr.MustNewCreditAsset(asset.Code, asset.Issuer).ToTrustLineAsset()
	n.put(t,
		xdr.LedgerKey{
			Type:      xdr.LedgerEntryTypeTrustline,
			TrustLine: &xdr.LedgerKeyTrustLine{AccountId: id, Asset: line},
		},
		xdr.LedgerEntryData{
			Type:      xdr.LedgerEntryTypeTrustline,
			TrustLine: &xdr.TrustLineEntry{AccountId: id, Asset: line, Flags: xdr.Uint32(flags)},
		})
}

func newLookup(t *testing.T, n *node) *source.Lookup {
	t.Helper()
	l, err := rpc.NewLookup(rpc.Config{URL: n.server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestWarnings(t *testing.T) {
	n := newNode(t)
	n.openAccount(t, wallet)
	n.trust(t, wallet, usd, xdr.TrustLineFlagsAuthorizedFlag)
	n.trust(t, wallet, yen, xdr.TrustLineFlagsAuthorizedToMaintainLiabilitiesFlag)
	l := newLookup(t, n)
	for _, c := range []struct {
		name   string
		wallet string
		assets []domain.Asset
		want   []string
	}{
		{"XLM needs no trustline", wallet, []domain.Asset{xlm}, []string{}},
		{"a trustline is there", wallet, []domain.Asset{usd, xlm}, []string{}},
		{
			"a trustline is missing", wallet,
			[]domain.Asset{usd, euro}, []string{"NO_TRUSTLINE:EURODOLLAR"},
		},
		{"a trustline is not authorised", wallet, []domain.Asset{yen}, []string{"NO_TRUSTLINE:YEN"}},
		{"an issuer needs none for its own", wallet, []domain.Asset{own}, []string{}},
		{
			"the same code twice", wallet,
			[]domain.Asset{euro, {Code: "EURODOLLAR", Issuer: address(3)}},
			[]string{"NO_TRUSTLINE:EURODOLLAR"},
		},
		{"no account", address(9), []domain.Asset{xlm}, []string{"ACCOUNT_NOT_FOUND"}},
		{
			"no account, so no trustline", address(9), []domain.Asset{usd},
			[]string{"ACCOUNT_NOT_FOUND", "NO_TRUSTLINE:USD"},
		},
		{"no address", "GARBAGE", []domain.Asset{xlm}, []string{"LOOKUP_FAILED"}},
	} {
		if got := l.Warnings(t.Context(), c.wallet, c.assets); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestWarningsAreKeptForAMoment(t *testing.T) {
	n := newNode(t)
	l := newLookup(t, n)
	now := time.Unix(1_800_000_000, 0)
	l.Now = func() time.Time { return now }
	check := func(want []string, asked int) {
		t.Helper()
		if got := l.Warnings(t.Context(), wallet, []domain.Asset{xlm}); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := n.asked(protocol.GetLedgerEntriesMethodName); got != asked {
			t.Errorf("the node was asked %d times, want %d", got, asked)
		}
	}
	check([]string{"ACCOUNT_NOT_FOUND"}, 1)
	n.openAccount(t, wallet)
	now = now.Add(900 * time.Millisecond)
	check([]string{"ACCOUNT_NOT_FOUND"}, 1)
	now = now.Add(200 * time.Millisecond)
	check([]string{}, 2)
}

func TestFailedLookupsAreAWarningAndNotKept(t *testing.T) {
	n := newNode(t)
	n.openAccount(t, wallet)
	n.faults = []fault{unavailable, garbage, unhealthy}
	l := newLookup(t, n)
	for range 3 {
		if got := l.Warnings(t.Context(), wallet, []domain.Asset{xlm}); !slices.Equal(got,
			[]string{"LOOKUP_FAILED"}) {
			t.Errorf("got %v", got)
		}
	}
	if got := l.Warnings(t.Context(), wallet, []domain.Asset{xlm}); len(got) != 0 {
		t.Errorf("the node is well again: got %v", got)
	}
}

func TestLookupIsBoundedInTime(t *testing.T) {
	n := newNode(t)
	release := make(chan struct{})
	n.faults = []fault{func(http.ResponseWriter, string) bool { <-release; return true }}
	l := newLookup(t, n)
	if got := l.Warnings(t.Context(), wallet, []domain.Asset{xlm}); !slices.Equal(got,
		[]string{"LOOKUP_FAILED"}) {
		t.Errorf("got %v", got)
	}
	close(release)
}
