package devnet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func call(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
}

// Invalid requests must get the codes and messages of a Stellar RPC server.
func TestRequestErrors(t *testing.T) {
	r := start(t, testConfig(t))
	for range 8 {
		r.closeLedger()
	}
	// Ledgers 2 to 10 exist.
	cases := []struct {
		name, body string
		code       int
		message    string
	}{
		{"not JSON", `{`, -32700, "not well-formed"},
		{"not JSON-RPC", `{"id":1,"method":"getHealth"}`, -32600, `"jsonrpc": "2.0"`},
		{"not an object", `"getHealth"`, -32600, "not JSON-RPC"},
		{"a batch", `[` + call("getHealth", "{}") + `]`, -32600, "not JSON-RPC"},
		{"unknown method", call("getWeather", "{}"), -32601, "method not found"},
		{"positional parameters", call("getLedgers", "[1]"), -32602, "must be an object"},
		{"parameter of a wrong type", call("getLedgers", `{"startLedger":"2"}`), -32602, "startLedger"},
		{
			"no start", call("getLedgers", "{}"), -32600,
			"start ledger (0) must be between the oldest ledger: 2 and the latest ledger: 10 for this rpc instance",
		},
		{
			"start before", call("getLedgers", `{"startLedger":1}`), -32600,
			"start ledger (1) must be between",
		},
		{
			"start beyond", call("getLedgers", `{"startLedger":11}`), -32600,
			"start ledger (11) must be between",
		},
		{
			"limit", call("getLedgers", `{"startLedger":2,"pagination":{"limit":201}}`),
			-32600, "limit must not exceed 200",
		},
		{
			"start and cursor",
			call("getLedgers", `{"startLedger":2,"pagination":{"cursor":"2"}}`), -32600,
			"cannot both be set",
		},
		{
			"cursor at the end", call("getLedgers", `{"pagination":{"cursor":"10"}}`), -32602,
			"cursor ('10') must be between the oldest ledger: 2 and the latest ledger: 10 for this rpc instance",
		},
		{
			"cursor before", call("getLedgers", `{"pagination":{"cursor":"0"}}`), -32602,
			"cursor ('0') must be between",
		},
		{
			"cursor of no ledger", call("getLedgers", `{"pagination":{"cursor":"4294967298"}}`), -32602,
			"must be between",
		},
		{
			"cursor not a number", call("getLedgers", `{"pagination":{"cursor":"x"}}`), -32602,
			"invalid syntax",
		},
		{
			"ledgers as JSON", call("getLedgers", `{"startLedger":2,"xdrFormat":"json"}`),
			-32600, "use 'base64'",
		},
		{
			"transaction as JSON", call("getTransaction", `{"hash":"00","xdrFormat":"json"}`),
			-32602, "use 'base64'",
		},
		{
			"unknown format", call("getTransaction", `{"hash":"00","xdrFormat":"yaml"}`),
			-32602, "got 'yaml'",
		},
		{"hash too short", call("getTransaction", `{"hash":"00"}`), -32602, "unexpected hash length (2)"},
		{
			"hash not hex", call("getTransaction", `{"hash":"`+strings.Repeat("zz", 32)+`"}`),
			-32602, "incorrect hash",
		},
		{"transaction not XDR", call("sendTransaction", `{"transaction":"AAAA"}`), -32602, "invalid_xdr"},
		{
			"entries as JSON", call("getLedgerEntries", `{"keys":[],"xdrFormat":"json"}`),
			-32602, "use 'base64'",
		},
		{
			"entry key not XDR", call("getLedgerEntries", `{"keys":["AAAA"]}`), -32602,
			"cannot unmarshal key value AAAA at index 0",
		},
		{
			"too many entry keys",
			call("getLedgerEntries", `{"keys":["`+strings.Repeat(`","`, 200)+`"]}`), -32602,
			"key count (201) exceeds maximum supported (200)",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status, body := post(t, r.RPCURL(), c.body)
			var answer rpcResponse
			if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 ||
				answer.Error == nil {
				t.Fatal(status, body, err)
			}
			if answer.Error.Code != c.code || !strings.Contains(answer.Error.Message, c.message) {
				t.Fatalf("got %d %q", answer.Error.Code, answer.Error.Message)
			}
		})
	}
}

func TestTransport(t *testing.T) {
	r := start(t, testConfig(t))
	if status, body := post(t, r.RPCURL(), `{"jsonrpc":"2.0","method":"getHealth"}`); status != 204 ||
		body != "" {
		t.Fatal("notification:", status, body)
	}
	if status, _ := post(t, r.RPCURL(), `"`+strings.Repeat("x", maxBodyBytes)+`"`); status != 413 {
		t.Fatal("large body:", status)
	}
	if status, _ := post(t, r.RPCURL()+"/elsewhere", `{}`); status != 404 {
		t.Fatal("unknown path:", status)
	}
	req, err := http.NewRequest(http.MethodPut, r.RPCURL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 405 {
		t.Fatal("PUT:", resp.StatusCode)
	}
}

// Other SDKs depend on which numbers are strings. The Go SDK's own client would not notice
// mistakes.
func TestJSONShapes(t *testing.T) {
	r := start(t, testConfig(t))
	done := r.apply(txSpec{from: r.payer, ops: ops(lumensOp(r.issuer.Address(), "1"))})
	result := func(method, params string) map[string]json.RawMessage {
		t.Helper()
		_, body := post(t, r.RPCURL(), call(method, params))
		var answer struct{ Result map[string]json.RawMessage }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Result == nil {
			t.Fatal(body, err)
		}
		return answer.Result
	}
	isString := func(what string, raw json.RawMessage, want bool) {
		t.Helper()
		if len(raw) == 0 || bytes.HasPrefix(raw, []byte(`"`)) != want {
			t.Fatalf("%s is %s", what, raw)
		}
	}
	health := result("getHealth", "null")
	isString("getHealth latestLedgerCloseTime", health["latestLedgerCloseTime"], true)
	isString("getHealth latestLedger", health["latestLedger"], false)
	page := result("getLedgers", `{"startLedger":2}`)
	isString("getLedgers latestLedgerCloseTime", page["latestLedgerCloseTime"], false)
	var ledgers []map[string]json.RawMessage
	if err := json.Unmarshal(page["ledgers"], &ledgers); err != nil || len(ledgers) != 2 {
		t.Fatal(len(ledgers), err)
	}
	isString("ledgerCloseTime", ledgers[0]["ledgerCloseTime"], true)
	tx := result("getTransaction", `{"hash":"`+done.TransactionHash+`"}`)
	isString("getTransaction createdAt", tx["createdAt"], true)
	isString("getTransaction ledger", tx["ledger"], false)

	latest := result("getLatestLedger", "{}")
	isString("getLatestLedger closeTime", latest["closeTime"], true)
	var text string
	var header xdr.LedgerHeader
	if err := json.Unmarshal(latest["headerXdr"], &text); err != nil {
		t.Fatal(err)
	}
	if err := xdr.SafeUnmarshalBase64(text, &header); err != nil || header.LedgerSeq != 3 {
		t.Fatal(header.LedgerSeq, err)
	}
	network := result("getNetwork", "{}")
	if string(network["passphrase"]) != `"`+DefaultPassphrase+`"` ||
		string(network["friendbotUrl"]) != `"`+r.FriendbotURL()+`"` {
		t.Fatal(network)
	}
}

func TestFriendbot(t *testing.T) {
	cfg := testConfig(t)
	cfg.CloseInterval = minCloseInterval
	r := start(t, cfg)
	get := func(query string) (int, string) {
		t.Helper()
		resp, err := http.Get(r.FriendbotURL() + query)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(raw)
	}
	pair := keypair.MustRandom()
	status, body := get("?addr=" + pair.Address())
	var answer friendbotAnswer
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 ||
		!answer.Successful {
		t.Fatal(status, body)
	}
	if done := r.transaction(answer.Hash); done.Status != "SUCCESS" || done.Ledger != answer.Ledger ||
		done.ResultMetaXDR != answer.ResultMetaXDR {
		t.Fatalf("%+v", done)
	}
	if got := r.lumens(pair.Address()); got != 10_000*stroopsPerUnit {
		t.Fatal("lumens", got)
	}
	if got := r.sequence(pair.Address()); got != int64(answer.Ledger)<<32 {
		t.Fatal("a new account's sequence number is that of its ledger:", got)
	}
	if status, body := get("?addr=" + pair.Address()); status != 400 ||
		!strings.Contains(body, "already funded") {
		t.Fatal(status, body)
	}
	if status, body := get("?addr=" + pair.Seed()); status != 400 ||
		strings.Contains(body, pair.Seed()) {
		t.Fatal(status, body)
	}
	form := url.Values{"addr": {keypair.MustRandom().Address()}}
	resp, err := http.PostForm(r.FriendbotURL(), form)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatal("form:", resp.StatusCode)
	}

	// Several accounts, and one account three times, in the same ledger or the next.
	twice := keypair.MustRandom().Address()
	answers := make(chan int, 6)
	for _, address := range []string{
		twice, keypair.MustRandom().Address(), twice, keypair.MustRandom().Address(),
		twice, keypair.MustRandom().Address(),
	} {
		go func() {
			resp, err := http.Get(r.FriendbotURL() + "?addr=" + address)
			if err != nil {
				answers <- 0
				return
			}
			resp.Body.Close()
			answers <- resp.StatusCode
		}()
	}
	count := map[int]int{}
	for range 6 {
		count[<-answers]++
	}
	if count[200] != 4 || count[400] != 2 {
		t.Fatal("answers by status:", count)
	}
	r.verifyAll()
}

// A page of large ledgers must end early, and its cursor must continue from there.
func TestLedgerPagesAreBounded(t *testing.T) {
	r := start(t, testConfig(t))
	holder := r.account("1000")
	big := make([]txnbuild.Operation, 100)
	for i := range big {
		big[i] = lumensOp(holder.Address(), "0.0000001")
	}
	next := r.sequence(r.payer.Address()) + 1
	for i := range int64(90) {
		tx, err := signedTransaction(r.Passphrase(), r.payer, next+i, big)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := r.submit(tx); err != nil || answer.status != statusPending {
			t.Fatal(answer.status, err)
		}
	}
	large := r.closeLedger() // more than a page on its own
	r.closeLedger()
	status, body := post(t, r.RPCURL(), call("getLedgers", `{"startLedger":2}`))
	if status != 200 || len(body) > 3*maxPageBytes {
		t.Fatal(status, len(body))
	}
	var answer struct {
		Result struct {
			Ledgers []struct{ Sequence uint32 }
			Cursor  string
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	if n := len(answer.Result.Ledgers); len(body) < maxPageBytes ||
		answer.Result.Ledgers[n-1].Sequence != large || answer.Result.Cursor != fmt.Sprint(large) {
		t.Fatal("bytes", len(body), "ledgers", n, "cursor", answer.Result.Cursor)
	}
	r.verifyAll() // continues by cursors and gets every ledger
}
