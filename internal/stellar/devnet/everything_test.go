package devnet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/clients/rpcclient"
	"github.com/stellar/go-stellar-sdk/keypair"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/stellar/devnet"
	"github.com/lumenhook/lumenhook/internal/stellar/devnet/devtraffic"
)

// open runs a network whose ledgers close when the test says so.
func open(t *testing.T, change func(*devnet.Config)) (*devnet.Network, devnet.Identities) {
	t.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	config := devnet.Config{
		Dir:           t.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: time.Hour,
	}
	if change != nil {
		change(&config)
	}
	n, err := devnet.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n, ids
}

func drive(t *testing.T, n *devnet.Network, ids devnet.Identities, steps int) *devtraffic.Traffic {
	t.Helper()
	traffic, err := devtraffic.New(t.Context(), n, ids)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = traffic.Close() })
	for i := range steps {
		if err := traffic.Step(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	return traffic
}

func getJSON(t *testing.T, url string, into any) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

type record struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	From   string `json:"from"`
	To     string `json:"to"`
	Amount string `json:"amount"`
	Muxed  string `json:"to_muxed_id"`
	Tx     *struct {
		MemoType  string `json:"memo_type"`
		ResultXDR string `json:"result_xdr"`
	} `json:"transaction"`
	Changes []map[string]string `json:"asset_balance_changes"`
}

type page struct {
	Embedded struct {
		Records []record `json:"records"`
	} `json:"_embedded"`
}

// Every kind of operation is listed as Horizon lists it, in pages that neither skip nor repeat.
func TestHorizonListsEveryPayment(t *testing.T) {
	n, ids := open(t, nil)
	traffic := drive(t, n, ids, 3*devtraffic.Kinds)
	seen, cursor, last := map[string]int{}, "0", uint64(0)
	memos := map[string]bool{}
	for {
		var p page
		if status := getJSON(t, n.RPCURL()+"/payments?join=transactions&limit=7&order=asc&cursor="+cursor,
			&p); status != http.StatusOK {
			t.Fatal(status)
		}
		for _, r := range p.Embedded.Records {
			var id uint64
			if _, err := fmt.Sscan(r.ID, &id); err != nil || id <= last {
				t.Fatalf("%s follows %d", r.ID, last)
			}
			last, cursor = id, r.ID
			seen[r.Type]++
			memos[r.Tx.MemoType] = true
			var result xdr.TransactionResult
			if err := xdr.SafeUnmarshalBase64(r.Tx.ResultXDR, &result); err != nil || !result.Successful() {
				t.Fatalf("%s is listed with the result %v (%v)", r.ID, result.Result.Code, err)
			}
		}
		if len(p.Embedded.Records) < 7 {
			break
		}
	}
	for _, kind := range []string{
		"create_account", "payment", "path_payment_strict_receive",
		"path_payment_strict_send", "account_merge", "invoke_host_function",
	} {
		if seen[kind] == 0 {
			t.Errorf("no %s is listed: %v", kind, seen)
		}
	}
	if len(memos) != 5 {
		t.Errorf("memos of the kinds %v, want all five", memos)
	}
	var account struct {
		Sequence string
		Balances []map[string]any
	}
	status := getJSON(t, n.RPCURL()+"/accounts/"+traffic.Wallet(), &account)
	if status != http.StatusOK || len(account.Balances) != 3 || account.Sequence == "" {
		t.Errorf("status %d, %+v", status, account)
	}
	for path, want := range map[string]int{
		"/accounts/" + keypair.MustRandom().Address(): 404,
		"/accounts/x":          400,
		"/payments?cursor=now": 400,
		"/payments?order=desc": 400,
		"/ledgers?limit=0":     400,
	} {
		var problem map[string]any
		if status := getJSON(t, n.RPCURL()+path, &problem); status != want || problem["detail"] == nil {
			t.Errorf("%s: %d %v, want %d", path, status, problem, want)
		}
	}
}

func TestParseFaults(t *testing.T) {
	got, err := devnet.ParseFaults("errors@30x10, gap@50")
	if err != nil ||
		!slices.Equal(got,
			[]devnet.Fault{
				{Kind: devnet.FaultErrors, Ledger: 30, Answers: 10},
				{Kind: devnet.FaultGap, Ledger: 50, Answers: 1},
			}) {
		t.Errorf("got %v (%v)", got, err)
	}
	for _, text := range []string{"errors", "gap@", "gap@0", "gap@5x0", "flood@5", "gap@x"} {
		if _, err := devnet.ParseFaults(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}

// Pages of events, however small, are the one page of all.
func TestPagesOfEvents(t *testing.T) {
	n, ids := open(t, nil)
	drive(t, n, ids, 2*devtraffic.Kinds)
	client := rpcclient.NewClient(n.RPCURL(), nil)
	defer client.Close()
	whole, err := client.GetEvents(t.Context(), protocol.GetEventsRequest{StartLedger: 2})
	if err != nil || len(whole.Events) < 6 {
		t.Fatalf("%d events (%v)", len(whole.Events), err)
	}
	var parts []protocol.EventInfo
	request := protocol.GetEventsRequest{
		StartLedger: 2,
		Pagination:  &protocol.PaginationOptions{Limit: 2},
	}
	for {
		page, err := client.GetEvents(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if parts = append(parts, page.Events...); len(page.Events) < 2 {
			break
		}
		cursor, err := protocol.ParseCursor(page.Cursor)
		if err != nil {
			t.Fatal(err)
		}
		request = protocol.GetEventsRequest{Pagination: &protocol.PaginationOptions{
			Cursor: &cursor,
			Limit:  2,
		}}
	}
	if !reflect.DeepEqual(parts, whole.Events) {
		t.Errorf("%d events in pages, %d at once", len(parts), len(whole.Events))
	}
}
