package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
)

// TestAForgottenEventIsSentAgain resends an event through the real program after more deliveries
// than an engine remembers. Its body and its attempts come from the history.
func TestAForgottenEventIsSentAgain(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms")
	h := startHooks(t, s.dir)
	endpoint := s.endpointAt(h)
	wallet := s.watchedWalletOf(endpoint)
	s.devnet(nil, "pay", "--to", wallet, "--amount", "7")
	s.eventually("the first delivery in the history", func() bool { return s.delivered(1) })
	first := h.posts()[0]

	const watches, remembered = 255, 16_384
	for n := range watches {
		if status := s.call("POST", "/v1/watches", map[string]any{
			"walletAddress": wallet, "endpointId": endpoint, "label": fmt.Sprint("till ", n),
			"assets": []map[string]any{{"code": "XLM", "issuer": nil}},
		}, nil); status != http.StatusCreated {
			t.Fatalf("watch %d was answered %d", n, status)
		}
	}
	s.payTimes(wallet, 4, remembered/4/(watches+1)+1)
	s.eventually("all of them delivered", func() bool {
		out, _, err := s.command("sql", "--format", "csv", "SELECT countIf(state = 'DELIVERED') > "+
			fmt.Sprint(remembered)+" AND countIf(state != 'DELIVERED') = 0 FROM current_deliveries")
		return err == nil && strings.HasSuffix(out, "\n1\n")
	})

	c, posts := s.client(s.file.APIKey), h.count()
	again, err := c.ResendEvent(t.Context(), first.ID)
	if err != nil || again.ID != first.ID || again.Delivery.State != "QUEUED" {
		t.Fatalf("%v %+v", err, again)
	}
	var event client.Event
	s.eventually("its second delivery", func() bool {
		event, err = c.GetEvent(t.Context(), first.ID)
		return err == nil && event.Delivery.State == "DELIVERED" && len(event.Attempts) == 2
	})
	if a := event.Attempts; a[0].Number != 1 || a[1].Number != 2 || a[1].Run != 2 {
		t.Errorf("attempts %+v", a)
	}
	last := h.posts()[h.count()-1]
	if h.count() != posts+1 || last.ID != first.ID || !bytes.Equal(last.Body, first.Body) {
		t.Errorf("%d posts more, the last of %s with\n%s\nand it was %s with\n%s",
			h.count()-posts, last.ID, last.Body, first.ID, first.Body)
	}
	recalled := s.must("topics", "cat", "journal", "--type", "DeliveryRecalled")
	if strings.Count(recalled, first.ID) != 1 {
		t.Errorf("the engine had not forgotten it:\n%s", recalled)
	}
	s.interrupt()
}

// payTimes pays a wallet from several accounts at once, the given number of times from each.
func (s *testService) payTimes(wallet string, payers, times int) {
	s.t.Helper()
	payments, err := devclient.New(s.file.Stellar.RPCURL, s.file.Stellar.FriendbotURL)
	if err != nil {
		s.t.Fatal(err)
	}
	var paying errgroup.Group
	for range payers {
		var account struct{ Secret string }
		s.devnet(&account, "account", "--json")
		paying.Go(func() error {
			for range times {
				_, err := payments.Pay(s.t.Context(),
					devclient.PayRequest{From: account.Secret, To: wallet, Amount: "1"})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := errors.Join(paying.Wait(), payments.Close()); err != nil {
		s.t.Fatal(err)
	}
}
