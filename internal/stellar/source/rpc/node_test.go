package rpc_test

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

const passphrase = "Lumenhook test network"

// node is a Stellar RPC server with a chain of ledgers.
type node struct {
	server *httptest.Server

	mu         sync.Mutex
	passphrase string
	oldest     uint32
	latest     uint32
	ledgers    map[uint32]ledger.Raw
	entries    map[string]string
	faults     []fault // one per request, in order, and then none
	requests   map[string]int
	onRequest  func(method string) // called with mu held
	onAsk      func(protocol.GetLedgersRequest)
}

// fault may answer a request instead of the node. If it returns false, the node answers.
type fault func(w http.ResponseWriter, method string) bool

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{
		passphrase: passphrase,
		ledgers:    map[uint32]ledger.Raw{},
		entries:    map[string]string{},
		requests:   map[string]int{},
	}
	n.server = httptest.NewServer(n)
	t.Cleanup(n.server.Close)
	return n
}

// grow closes the ledgers from first to last. Different seeds lead to different chains.
func (n *node) grow(t *testing.T, first, last uint32, seed byte) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	var before xdr.Hash
	if previous, ok := n.ledgers[first-1]; ok {
		var whole xdr.LedgerCloseMeta
		if err := whole.UnmarshalBinary(previous.XDR); err != nil {
			t.Fatal(err)
		}
		before = whole.LedgerHash()
	}
	for sequence := first; sequence <= last; sequence++ {
		raw := closeLedger(t, sequence, before, seed)
		n.ledgers[sequence] = raw.Raw
		before = raw.hash
	}
	n.oldest, n.latest = first, last
	for _, ok := n.ledgers[n.oldest-1]; ok; _, ok = n.ledgers[n.oldest-1] {
		n.oldest--
	}
}

type closed struct {
	ledger.Raw
	hash xdr.Hash
}

func closeLedger(t *testing.T, sequence uint32, before xdr.Hash, seed byte) closed {
	t.Helper()
	set := xdr.GeneralizedTransactionSet{V: 1, V1TxSet: &xdr.TransactionSetV1{}}
	header := xdr.LedgerHeader{
		LedgerVersion:      23,
		PreviousLedgerHash: before,
		LedgerSeq:          xdr.Uint32(sequence),
		ScpValue:           xdr.StellarValue{TxSetHash: hashOf(t, set)},
		TxSetResultHash:    hashOf(t, xdr.TransactionResultSet{}),
		BucketListHash:     xdr.Hash{seed},
	}
	hash := hashOf(t, header)
	meta := xdr.LedgerCloseMeta{V: 2, V2: &xdr.LedgerCloseMetaV2{
		LedgerHeader: xdr.LedgerHeaderHistoryEntry{Hash: hash, Header: header},
		TxSet:        set,
	}}
	raw, err := meta.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return closed{ledger.Raw{Sequence: sequence, Hash: hash.HexString(), XDR: raw}, hash}
}

func hashOf(t *testing.T, v any) xdr.Hash {
	t.Helper()
	hash, err := xdr.HashXdr(v)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func (n *node) addReal(t *testing.T, sequence uint32) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "ledger", "testdata",
		fmt.Sprintf("pubnet-%d.xdr.gz", sequence)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	header, err := ledger.ReadHeader(raw)
	if err != nil {
		t.Fatal(err)
	}
	n.ledgers[sequence] = ledger.Raw{Sequence: sequence, Hash: header.Hash, XDR: raw}
	n.oldest, n.latest = sequence, sequence
}

func (n *node) asked(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests[method]
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var call struct {
		ID     int             `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n.requests[call.Method]++
	if n.onRequest != nil {
		n.onRequest(call.Method)
	}
	var ask protocol.GetLedgersRequest
	if n.onAsk != nil && call.Method == protocol.GetLedgersMethodName &&
		json.Unmarshal(call.Params, &ask) == nil {
		n.onAsk(ask)
	}
	if len(n.faults) > 0 {
		next := n.faults[0]
		n.faults = n.faults[1:]
		if next(w, call.Method) {
			return
		}
	}
	result, err := n.answer(call.Method, call.Params)
	reply := map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": result}
	if err != nil {
		reply = map[string]any{
			"jsonrpc": "2.0",
			"id":      call.ID,
			"error":   map[string]any{"code": -32602, "message": err.Error()},
		}
	}
	if err := json.NewEncoder(w).Encode(reply); err != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
}

func (n *node) answer(method string, params json.RawMessage) (any, error) {
	switch method {
	case protocol.GetHealthMethodName:
		return protocol.GetHealthResponse{
			Status:                "healthy",
			LatestLedger:          n.latest,
			OldestLedger:          n.oldest,
			LedgerRetentionWindow: n.latest - n.oldest + 1,
		}, nil
	case protocol.GetNetworkMethodName:
		return protocol.GetNetworkResponse{Passphrase: n.passphrase, ProtocolVersion: 23}, nil
	case protocol.GetLedgersMethodName:
		var ask protocol.GetLedgersRequest
		if err := json.Unmarshal(params, &ask); err != nil {
			return nil, err
		}
		return n.getLedgers(ask)
	case protocol.GetLedgerEntriesMethodName:
		var ask protocol.GetLedgerEntriesRequest
		if err := json.Unmarshal(params, &ask); err != nil {
			return nil, err
		}
		got := protocol.GetLedgerEntriesResponse{LatestLedger: n.latest}
		for _, key := range ask.Keys {
			if data, ok := n.entries[key]; ok {
				got.Entries = append(got.Entries, protocol.LedgerEntryResult{KeyXDR: key, DataXDR: data})
			}
		}
		return got, nil
	}
	return nil, fmt.Errorf("no method %q", method)
}

func (n *node) getLedgers(ask protocol.GetLedgersRequest) (any, error) {
	kept := protocol.LedgerSeqRange{FirstLedger: n.oldest, LastLedger: n.latest}
	if err := ask.Validate(200, kept); err != nil {
		return nil, err
	}
	got := protocol.GetLedgersResponse{LatestLedger: n.latest, OldestLedger: n.oldest}
	for sequence := ask.StartLedger; sequence <= n.latest &&
		len(got.Ledgers) < int(ask.Pagination.Limit); sequence++ {
		l, ok := n.ledgers[sequence]
		if !ok {
			continue
		}
		got.Ledgers = append(got.Ledgers,
			protocol.LedgerInfo{
				Hash:           l.Hash,
				Sequence:       sequence,
				LedgerMetadata: base64.StdEncoding.EncodeToString(l.XDR),
			})
	}
	return got, nil
}

func unavailable(w http.ResponseWriter, _ string) bool {
	http.Error(w, "upstream is away", http.StatusServiceUnavailable)
	return true
}

func garbage(w http.ResponseWriter, _ string) bool {
	io.WriteString(w, "<html>not what you asked for</html>")
	return true
}

func noResult(w http.ResponseWriter, _ string) bool {
	io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":null}`)
	return true
}

func unhealthy(w http.ResponseWriter, _ string) bool {
	io.WriteString(w,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"latency is too high"}}`)
	return true
}

func hangUp(http.ResponseWriter, string) bool { panic(http.ErrAbortHandler) }

func none(http.ResponseWriter, string) bool { return false }
