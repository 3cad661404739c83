package source_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stellar/go-stellar-sdk/network"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// server is a Stellar RPC server that returns the configured ledgers.
type server struct {
	*httptest.Server
	passphrase string

	mu      sync.Mutex
	ledgers map[uint32]ledger.Raw
	oldest  uint32
	latest  uint32
	hang    chan struct{} // if not nil, nothing is answered
	away    bool          // whether it answers that it is unavailable
	asked   int
}

func newServer(t *testing.T, passphrase string) *server {
	t.Helper()
	s := &server{passphrase: passphrase, ledgers: map[uint32]ledger.Raw{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.set(func() { s.answerAgain() })
		s.Close()
	})
	return s
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) answerAgain() {
	if s.hang != nil {
		close(s.hang)
		s.hang = nil
	}
}

func (s *server) give(ledgers map[uint32]ledger.Raw) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.ledgers, ledgers)
	for sequence := range ledgers {
		s.latest = max(s.latest, sequence)
		if s.oldest == 0 || sequence < s.oldest {
			s.oldest = sequence
		}
	}
}

func (s *server) source(t *testing.T, onRefused func()) *rpc.Source {
	t.Helper()
	return s.read(t, s.passphrase, onRefused)
}

// read returns a source that reads from this server, for a network.
func (s *server) read(t *testing.T, passphrase string, onRefused func()) *rpc.Source {
	t.Helper()
	from, err := rpc.New(rpc.Config{
		URL:          s.URL,
		Passphrase:   passphrase,
		PollInterval: poll,
		BackoffMax:   4 * poll,
		PageSize:     4,
		Trust:        source.Trust{OnRefused: onRefused},
	})
	if err != nil {
		t.Fatal(err)
	}
	return from
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Method string                     `json:"method"`
		Params protocol.GetLedgersRequest `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.asked++
	hang, away := s.hang, s.away
	s.mu.Unlock()
	if away {
		http.Error(w, "not available", http.StatusServiceUnavailable)
		return
	}
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
			return
		}
	}
	s.mu.Lock()
	result := s.answer(call.Method, call.Params)
	s.mu.Unlock()
	reply := map[string]any{"jsonrpc": "2.0", "id": 1, "result": result}
	if err := json.NewEncoder(w).Encode(reply); err != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
}

func (s *server) answer(method string, ask protocol.GetLedgersRequest) any {
	switch method {
	case protocol.GetHealthMethodName:
		return protocol.GetHealthResponse{
			Status:       "healthy",
			LatestLedger: s.latest,
			OldestLedger: s.oldest,
		}
	case protocol.GetNetworkMethodName:
		return protocol.GetNetworkResponse{Passphrase: s.passphrase}
	}
	var got protocol.GetLedgersResponse
	for next := ask.StartLedger; len(got.Ledgers) < int(ask.Pagination.Limit); next++ {
		l, found := s.ledgers[next]
		if !found {
			break
		}
		got.Ledgers = append(got.Ledgers, protocol.LedgerInfo{
			Hash:           l.Hash,
			Sequence:       l.Sequence,
			LedgerMetadata: base64.StdEncoding.EncodeToString(l.XDR),
		})
	}
	return got
}

func raws(t *testing.T, s source.Source, first, last uint32) map[uint32]ledger.Raw {
	t.Helper()
	all := map[uint32]ledger.Raw{}
	for next := first; next <= last; {
		page, err := s.Next(within(t), next)
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range page {
			all[raw.Sequence] = ledger.Raw{Sequence: raw.Sequence, Hash: raw.Hash, XDR: raw.XDR}
			next++
		}
	}
	for sequence := range all {
		if sequence > last {
			delete(all, sequence)
		}
	}
	return all
}

// forge returns another history, beginning at a ledger, in which every ledger is valid in itself.
// Its first ledger repeats one of its payments, and the following ledgers continue the chain.
func forge(
	t *testing.T, honest map[uint32]ledger.Raw, passphrase string, at, last uint32,
) map[uint32]ledger.Raw {
	t.Helper()
	forged := map[uint32]ledger.Raw{}
	var before xdr.Hash
	for sequence := at; sequence <= last; sequence++ {
		var meta xdr.LedgerCloseMeta
		if err := meta.UnmarshalBinary(honest[sequence].XDR); err != nil {
			t.Fatal(err)
		}
		l := meta.V2
		if sequence == at {
			payAgain(t, l, passphrase)
			l.LedgerHeader.Header.ScpValue.TxSetHash = hashXDR(t, l.TxSet)
			var results xdr.TransactionResultSet
			for _, x := range l.TxProcessing {
				results.Results = append(results.Results, x.Result)
			}
			l.LedgerHeader.Header.TxSetResultHash = hashXDR(t, results)
		} else {
			l.LedgerHeader.Header.PreviousLedgerHash = before
		}
		before = hashXDR(t, l.LedgerHeader.Header)
		l.LedgerHeader.Hash = before
		raw, err := meta.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		forged[sequence] = ledger.Raw{Sequence: sequence, Hash: before.HexString(), XDR: raw}
		if _, err := ledger.Verify(forged[sequence], passphrase); err != nil {
			t.Fatalf("the forged ledger %d is not right in itself: %v", sequence, err)
		}
	}
	return forged
}

// payAgain repeats a successful transaction of a ledger with another sequence number.
func payAgain(t *testing.T, l *xdr.LedgerCloseMetaV2, passphrase string) {
	t.Helper()
	components := *l.TxSet.V1TxSet.Phases[0].V0Components
	for i := range components {
		txs := &components[i].TxsMaybeDiscountedFee.Txs
		for _, envelope := range *txs {
			if envelope.V1 == nil {
				continue
			}
			was := hashOfTx(t, envelope, passphrase)
			for _, x := range l.TxProcessing {
				if x.Result.TransactionHash != was || !x.Result.Successful() {
					continue
				}
				more := *envelope.V1
				more.Tx.SeqNum++
				envelope.V1 = &more
				*txs = append(*txs, envelope)
				x.Result.TransactionHash = hashOfTx(t, envelope, passphrase)
				l.TxProcessing = append(l.TxProcessing, x)
				return
			}
		}
	}
	t.Fatal("no transaction of the ledger can be forged")
}

func hashXDR(t *testing.T, v any) xdr.Hash {
	t.Helper()
	hash, err := xdr.HashXdr(v)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// silent makes the server hang on every request until answerAgain. It returns the number of
// requests before that.
func (s *server) silent() (asked int) {
	s.set(func() { s.hang, asked = make(chan struct{}), s.asked })
	return asked
}

func (s *server) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func hashOfTx(t *testing.T, envelope xdr.TransactionEnvelope, passphrase string) xdr.Hash {
	t.Helper()
	hash, err := network.HashTransactionInEnvelope(envelope, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(t))
	t.Cleanup(cancel)
	return ctx
}
