package sourcestest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/horizon"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

func accountsOf(t *testing.T, address, passphrase string) map[string]source.Accounts {
	t.Helper()
	// The first server is away: the next is asked.
	near, err := rpc.NewAccounts(rpc.Config{
		URL:          "http://127.0.0.1:1",
		FallbackURLs: []string{address},
		Passphrase:   passphrase,
	})
	if err != nil {
		t.Fatal(err)
	}
	far, err := horizon.NewAccounts(horizon.Config{URL: address, Passphrase: passphrase})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]source.Accounts{"rpc": near, "horizon": far}
}

// What RPC and Horizon say that accounts hold is where the balance moves up to that ledger end: of
// every account of ledgers of every kind of operation, also of those that were merged away.
func TestHoldingsAreWhereMovesEnd(t *testing.T) {
	const last = firstLedger + 100
	c := open(t, nil)
	c.grow(t, last)
	passphrase := c.network.Passphrase()
	ends := map[string]map[string]int64{} // by wallet and balance
	for _, l := range readMoving(t, c.rpc(t), passphrase, firstLedger, last) {
		moves, err := l.Moves(func(string) (bool, error) { return true, nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range moves.Moves {
			if ends[m.Wallet] == nil {
				ends[m.Wallet] = map[string]int64{}
			}
			ends[m.Wallet][m.BalanceName()] = m.AfterStroops
		}
	}
	gone, lines := 0, 0
	for name, accounts := range accountsOf(t, c.network.RPCURL(), passphrase) {
		for wallet, end := range ends {
			var names []string
			for balance := range end {
				names = append(names, balance)
			}
			held, err := accounts.Holdings(t.Context(), wallet, names)
			if err != nil || held.Ledger != last {
				t.Fatalf("%s: %v, of ledger %d and not %d", name, err, held.Ledger, last)
			}
			for balance, stroops := range end {
				if held.Stroops[balance] != stroops {
					t.Errorf("%s: %s holds %d %s, and its moves end at %d", name, wallet,
						held.Stroops[balance], balance, stroops)
				}
			}
			lines += len(end) - 1
			if !held.Exists {
				gone++
			}
		}
	}
	if gone == 0 || lines == 0 {
		t.Errorf("%d accounts were merged, and there are %d trust lines: both are to be among them", gone,
			lines)
	}
}

// A server of another network, and one that does not say of which ledger it tells, are refused; of
// more balances than one answer has, all are of one ledger.
func TestHoldingsOfOddServers(t *testing.T) {
	c := open(t, nil)
	address, passphrase := c.network.RPCURL(), c.network.Passphrase()
	for name, accounts := range accountsOf(t, address, "another network") {
		_, err := accounts.Holdings(t.Context(), c.traffic.Wallet(), []string{domain.NativeCode})
		if !errors.Is(err, domain.ErrWrongNetwork) {
			t.Errorf("%s of another network: %v", name, err)
		}
	}
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Del("Latest-Ledger")
		return nil
	}
	dropping := httptest.NewServer(proxy)
	defer dropping.Close()
	_, err = accountsOf(t, dropping.URL, passphrase)["horizon"].
		Holdings(t.Context(), c.traffic.Wallet(), nil)
	if err == nil || !strings.Contains(err.Error(), "does not say of which ledger") {
		t.Errorf("without a header: %v", err)
	}
	const one = "X:GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ"
	pool := "pool:" + strings.Repeat("ab", 32)
	many := slices.Repeat([]string{one, pool}, 301)
	held, err := accountsOf(t, address, passphrase)["rpc"].
		Holdings(t.Context(), c.traffic.Wallet(), many)
	if err != nil || !held.Exists || held.Stroops[one] != 0 || held.Stroops[domain.NativeCode] == 0 {
		t.Errorf("of %d balances: %v %+v", len(many), err, held)
	}
	for _, bad := range []string{"pool:ab", "USD", "USD:x", ""} {
		if _, err := accountsOf(t, address, passphrase)["rpc"].
			Holdings(t.Context(), c.traffic.Wallet(), []string{bad}); err == nil {
			t.Errorf("%q is a balance", bad)
		}
	}
}
