package source_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

func accountsOf(t *testing.T, address, passphrase string) source.Accounts {
	t.Helper()
	// The first server is unavailable, so the next is used.
	accounts, err := rpc.NewAccounts(passphrase, "http://127.0.0.1:1", address)
	if err != nil {
		t.Fatal(err)
	}
	return accounts
}

// For every account of ledgers with every kind of operation, even for merged accounts, the
// balances that RPC reports must equal the last balance moves up to that ledger.
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
	accounts := accountsOf(t, c.network.RPCURL(), passphrase)
	for wallet, end := range ends {
		var names []string
		for balance := range end {
			names = append(names, balance)
		}
		held, err := accounts.Holdings(t.Context(), wallet, names)
		if err != nil || held.Ledger != last {
			t.Fatalf("%v, of ledger %d and not %d", err, held.Ledger, last)
		}
		for balance, stroops := range end {
			if held.Stroops[balance] != stroops {
				t.Errorf("%s holds %d %s, and its moves end at %d", wallet, held.Stroops[balance], balance,
					stroops)
			}
		}
		lines += len(end) - 1
		if !held.Exists {
			gone++
		}
	}
	if gone == 0 || lines == 0 {
		t.Errorf("%d accounts were merged, and there are %d trust lines: both are to be among them", gone,
			lines)
	}
}

// A server of another network must be rejected. Balances must be complete even if they do not fit
// into one response.
func TestHoldingsOfOddServers(t *testing.T) {
	c := open(t, nil)
	address, passphrase := c.network.RPCURL(), c.network.Passphrase()
	_, err := accountsOf(t, address, "another network").
		Holdings(t.Context(), c.traffic.Wallet(), []string{domain.NativeCode})
	if !errors.Is(err, domain.ErrWrongNetwork) {
		t.Errorf("another network: %v", err)
	}
	const one = "X:GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ"
	pool := "pool:" + strings.Repeat("ab", 32)
	many := slices.Repeat([]string{one, pool}, 301)
	held, err := accountsOf(t, address, passphrase).
		Holdings(t.Context(), c.traffic.Wallet(), many)
	if err != nil || !held.Exists || held.Stroops[one] != 0 || held.Stroops[domain.NativeCode] == 0 {
		t.Errorf("of %d balances: %v %+v", len(many), err, held)
	}
	for _, bad := range []string{"pool:ab", "USD", "USD:x", ""} {
		if _, err := accountsOf(t, address, passphrase).
			Holdings(t.Context(), c.traffic.Wallet(), []string{bad}); err == nil {
			t.Errorf("%q is a balance", bad)
		}
	}
}
