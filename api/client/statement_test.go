package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// TestAStatementOfARun gets a wallet's statement from a service like `lumenhook run`. There are two
// payments, one of them too small for the watch. Ledgers were read without a gap, so nothing may be
// unexplained.
func TestAStatementOfARun(t *testing.T) {
	c, err := client.New(baseURL, apiKey, nil)
	must(t, err)
	wallet, err := newWallet(t.Context())
	must(t, err)
	endpoint, err := c.CreateEndpoint(t.Context(),
		client.EndpointCreate{URL: "https://127.0.0.1:1999/"})
	must(t, err)
	watch, err := c.CreateWatch(t.Context(), client.WatchCreate{
		WalletAddress: wallet,
		EndpointID:    endpoint.ID,
		Assets:        []client.Asset{{Code: "XLM"}},
		AmountRule:    &client.AmountRule{Kind: "min", Amount: "2"},
	})
	must(t, err)
	for _, amount := range []string{"5", "1"} {
		must(t, pay(t.Context(), wallet, amount, "statement"))
	}
	var s client.Statement
	testkit.EventuallyNil(t, "the statement has both payments and the event", func() (err error) {
		s, err = c.GetStatement(t.Context(), wallet, client.StatementFilter{Asset: "XLM"}, client.Page{})
		if err != nil {
			return err
		}
		if len(s.Data) != 2 || len(s.Data[0].Payments[0].EventIDs) != 1 {
			return fmt.Errorf("it has %+v", s.Data)
		}
		return nil
	})
	took, left := s.Data[0], s.Data[1]
	if took.Change != "5.0000000" || left.Change != "1.0000000" || took.After != left.Before ||
		took.Kind != "payment_in" || s.Balances[0].Unexplained != "0.0000000" ||
		s.Balances[0].Opening != took.Before || s.Balances[0].Closing != left.After {
		t.Errorf("%+v", s)
	}
	reasons := left.Payments[0].NotTaken
	if len(reasons) != 1 || reasons[0].WatchID != watch.ID ||
		reasons[0].Reasons[0] != "AMOUNT_TOO_LOW" {
		t.Errorf("%+v", reasons)
	}
	event, err := c.GetEvent(t.Context(), took.Payments[0].EventIDs[0])
	must(t, err)
	if event.Delivery.EndpointID != endpoint.ID {
		t.Errorf("%+v", event)
	}
	after := client.Bound{Time: left.LedgerClosedAt.Add(time.Second)}
	later, err := c.GetStatement(t.Context(), wallet, client.StatementFilter{From: after},
		client.Page{})
	must(t, err)
	if len(later.Data) != 0 || later.Balances[0].Opening != left.After || later.BeginsLater {
		t.Errorf("%+v", later)
	}
	coverage, err := c.GetCoverage(t.Context())
	must(t, err)
	if len(coverage.Gaps) != 0 || len(coverage.Ranges) != 1 || !coverage.Verified ||
		coverage.BalanceMovesSince == nil || *coverage.BalanceMovesSince > *s.RecordedSince ||
		coverage.Cursor.Ledger < *s.ThroughLedger {
		t.Errorf("%+v, of a statement through %d", coverage, *s.ThroughLedger)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
