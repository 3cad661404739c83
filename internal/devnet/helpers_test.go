package devnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net/http"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/clients/rpcclient"
	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/network"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// rig is a network behind a real socket. Its ledgers close when the test says so.
type rig struct {
	*Network
	t        testing.TB
	rpc      *rpcclient.Client
	payer    *keypair.Full
	issuer   *keypair.Full
	demo     txnbuild.CreditAsset
	runEnded chan error
}

func testConfig(t testing.TB) Config {
	t.Helper()
	id, err := NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Dir: t.TempDir(), Identities: id, Listen: "127.0.0.1:0", CloseInterval: time.Hour}
}

func start(t testing.TB, cfg Config) *rig {
	t.Helper()
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		Network:  n,
		t:        t,
		payer:    keypair.MustParseFull(cfg.Identities.PayerSeed),
		issuer:   keypair.MustParseFull(cfg.Identities.IssuerSeed),
		runEnded: make(chan error, 1),
	}
	r.demo = txnbuild.CreditAsset{Code: DemoAssetCode, Issuer: r.issuer.Address()}
	go func() { r.runEnded <- n.Run(context.Background()) }()
	client := &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 16},
		Timeout:   30 * time.Second,
	}
	r.rpc = rpcclient.NewClient(n.RPCURL(), client)
	t.Cleanup(func() {
		r.rpc.Close()
		client.CloseIdleConnections()
		if err := n.Close(); err != nil {
			t.Error("close:", err)
		}
		if err := <-r.runEnded; err != nil {
			t.Error("run:", err)
		}
	})
	return r
}

func (r *rig) closeLedger() uint32 {
	r.t.Helper()
	sequence, err := r.CloseNow()
	if err != nil {
		r.t.Fatal(err)
	}
	return sequence
}

// txSpec is a transaction to build. Fields that are left out get valid values.
type txSpec struct {
	from       *keypair.Full
	sourceAddr string // instead of from's address, for muxed sources
	seqNum     int64  // 0 means the next in the ledger; use after for pending transactions
	after      int64  // number of pending transactions of this source
	ops        []txnbuild.Operation
	memo       txnbuild.Memo
	cond       *txnbuild.Preconditions
	signers    []*keypair.Full // nil means from
	edit       func(*xdr.TransactionEnvelope)
	passphrase string
}

func (r *rig) sequence(address string) int64 {
	r.t.Helper()
	account, err := r.rpc.LoadAccount(context.Background(), address)
	if err != nil {
		r.t.Fatal(err)
	}
	n, _ := account.GetSequenceNumber()
	return n
}

// build creates the transaction. edit changes the envelope before it is signed.
func (r *rig) build(s txSpec) xdr.TransactionEnvelope {
	r.t.Helper()
	if s.seqNum == 0 {
		s.seqNum = r.sequence(s.from.Address()) + 1 + s.after
	}
	if s.sourceAddr == "" {
		s.sourceAddr = s.from.Address()
	}
	if s.cond == nil {
		s.cond = &txnbuild.Preconditions{TimeBounds: txnbuild.NewInfiniteTimeout()}
	}
	ops := s.ops
	if len(ops) == 0 { // txnbuild doesn't build what the network refuses
		ops = []txnbuild.Operation{&txnbuild.BumpSequence{BumpTo: 1}}
	}
	tx, err := txnbuild.NewTransaction(txnbuild.TransactionParams{
		SourceAccount: &txnbuild.SimpleAccount{AccountID: s.sourceAddr, Sequence: s.seqNum},
		Operations:    ops,
		BaseFee:       100,
		Memo:          s.memo,
		Preconditions: *s.cond,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	env := tx.ToXDR()
	if len(s.ops) == 0 {
		env.V1.Tx.Operations = nil
	}
	if s.edit != nil {
		s.edit(&env)
	}
	if s.signers == nil {
		s.signers = []*keypair.Full{s.from}
	}
	if s.passphrase == "" {
		s.passphrase = r.Passphrase()
	}
	hash, err := network.HashTransactionInEnvelope(env, s.passphrase)
	if err != nil {
		r.t.Fatal(err)
	}
	env.V1.Signatures = nil
	for _, signer := range s.signers {
		signature, err := signer.SignDecorated(hash[:])
		if err != nil {
			r.t.Fatal(err)
		}
		env.V1.Signatures = append(env.V1.Signatures, signature)
	}
	return env
}

func (r *rig) send(env xdr.TransactionEnvelope) protocol.SendTransactionResponse {
	r.t.Helper()
	text, err := xdr.MarshalBase64(env)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := r.rpc.SendTransaction(context.Background(),
		protocol.SendTransactionRequest{Transaction: text})
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// accept sends a transaction that must enter the queue.
func (r *rig) accept(s txSpec) string {
	r.t.Helper()
	answer := r.send(r.build(s))
	if answer.Status != "PENDING" {
		r.t.Fatalf("status %s, result %s", answer.Status, resultText(r.t, answer.ErrorResultXDR))
	}
	return answer.Hash
}

func (r *rig) apply(s txSpec) protocol.GetTransactionResponse {
	r.t.Helper()
	hash := r.accept(s)
	r.closeLedger()
	return r.transaction(hash)
}

func (r *rig) transaction(hash string) protocol.GetTransactionResponse {
	r.t.Helper()
	answer, err := r.rpc.GetTransaction(context.Background(),
		protocol.GetTransactionRequest{Hash: hash})
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// account creates a funded account in its own ledger. The payer funds it.
func (r *rig) account(lumens string) *keypair.Full {
	r.t.Helper()
	pair := keypair.MustRandom()
	done := r.apply(txSpec{
		from: r.payer,
		ops:  []txnbuild.Operation{&txnbuild.CreateAccount{Destination: pair.Address(), Amount: lumens}},
	})
	if done.Status != "SUCCESS" {
		r.t.Fatal(done.Status, resultText(r.t, done.ResultXDR))
	}
	return pair
}

func (r *rig) trust(holder *keypair.Full, limit string) {
	r.t.Helper()
	done := r.apply(txSpec{from: holder, ops: []txnbuild.Operation{trustOp(r.demo, limit)}})
	if done.Status != "SUCCESS" {
		r.t.Fatal(done.Status, resultText(r.t, done.ResultXDR))
	}
}

func trustOp(asset txnbuild.CreditAsset, limit string) *txnbuild.ChangeTrust {
	return &txnbuild.ChangeTrust{Line: txnbuild.ChangeTrustAssetWrapper{Asset: asset}, Limit: limit}
}

// resultText returns the code of a result and the codes of its operations.
func resultText(t testing.TB, resultXDR string) string {
	t.Helper()
	var result xdr.TransactionResult
	if err := xdr.SafeUnmarshalBase64(resultXDR, &result); err != nil {
		t.Fatalf("result %q: %v", resultXDR, err)
	}
	code, results := result.Result.Code, result.Result.Results
	text := code.String()
	if pair := result.Result.InnerResultPair; pair != nil {
		results = pair.Result.Result.Results
		text += " " + pair.Result.Result.Code.String()
	}
	if results == nil {
		return text
	}
	for _, op := range *results {
		switch {
		case op.Tr == nil:
			text += " " + op.Code.String()
		case op.Tr.CreateAccountResult != nil:
			text += " " + op.Tr.CreateAccountResult.Code.String()
		case op.Tr.PaymentResult != nil:
			text += " " + op.Tr.PaymentResult.Code.String()
		case op.Tr.ChangeTrustResult != nil:
			text += " " + op.Tr.ChangeTrustResult.Code.String()
		}
	}
	return text
}

// ledgers reads every ledger, page by page, with the RPC client.
func (r *rig) ledgers() []xdr.LedgerCloseMeta {
	r.t.Helper()
	health, err := r.rpc.GetHealth(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	req := protocol.GetLedgersRequest{
		StartLedger: health.OldestLedger,
		Pagination:  &protocol.LedgerPaginationOptions{Limit: 7},
	}
	var out []xdr.LedgerCloseMeta
	for {
		page, err := r.rpc.GetLedgers(context.Background(), req)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, info := range page.Ledgers {
			var meta xdr.LedgerCloseMeta
			if err := xdr.SafeUnmarshalBase64(info.LedgerMetadata, &meta); err != nil {
				r.t.Fatal(err)
			}
			var header xdr.LedgerHeaderHistoryEntry
			if err := xdr.SafeUnmarshalBase64(info.LedgerHeader, &header); err != nil {
				r.t.Fatal(err)
			}
			if meta.LedgerSequence() != info.Sequence || meta.LedgerHash().HexString() != info.Hash ||
				header.Hash != meta.LedgerHash() || info.LedgerCloseTime != meta.LedgerCloseTime() {
				r.t.Fatalf("ledger info does not fit its meta: %d %s", info.Sequence, info.Hash)
			}
			out = append(out, meta)
		}
		if len(page.Ledgers) == 0 || out[len(out)-1].LedgerSequence() >= health.LatestLedger {
			return out
		}
		req = protocol.GetLedgersRequest{Pagination: &protocol.LedgerPaginationOptions{
			Cursor: page.Cursor,
			Limit:  7,
		}}
	}
}

// replay is the state that a reader of the ledgers knows, by marshalled key.
type replay map[string]xdr.LedgerEntry

func (s replay) take(t testing.TB, ledger uint32, changes xdr.LedgerEntryChanges) {
	t.Helper()
	for _, change := range changes {
		key, err := change.LedgerKey()
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := key.MarshalBinary()
		have, known := s[string(raw)]
		switch change.Type {
		case xdr.LedgerEntryChangeTypeLedgerEntryState:
			if known && !sameXDR(t, have, *change.State) {
				t.Fatalf("STATE is not what was there: %+v, %+v", have.Data, change.State.Data)
			}
			s[string(raw)] = *change.State
		case xdr.LedgerEntryChangeTypeLedgerEntryCreated:
			if known {
				t.Fatal("CREATED what was there")
			}
			s.put(t, string(raw), *change.Created, ledger)
		case xdr.LedgerEntryChangeTypeLedgerEntryUpdated:
			if !known {
				t.Fatal("UPDATED what was not there")
			}
			s.put(t, string(raw), *change.Updated, ledger)
		case xdr.LedgerEntryChangeTypeLedgerEntryRemoved:
			if !known {
				t.Fatal("REMOVED what was not there")
			}
			delete(s, string(raw))
		}
	}
}

func (s replay) put(t testing.TB, key string, entry xdr.LedgerEntry, ledger uint32) {
	t.Helper()
	if uint32(entry.LastModifiedLedgerSeq) != ledger {
		t.Fatalf("an entry changed by ledger %d says it was ledger %d", ledger,
			entry.LastModifiedLedgerSeq)
	}
	s[key] = entry
}

// verifyChain checks the hashes and order of the ledgers (D2), replays them (D5) and adds up the
// lumens (D3).
func verifyChain(t testing.TB, passphrase string, ledgers []xdr.LedgerCloseMeta) replay {
	t.Helper()
	state := replay{}
	for i, meta := range ledgers {
		header := meta.LedgerHeaderHistoryEntry()
		if want := hashXDR(t, header.Header); header.Hash != want {
			t.Fatalf("ledger %d: header hash", meta.LedgerSequence())
		}
		if want := hashXDR(t, meta.V2.TxSet); header.Header.ScpValue.TxSetHash != want {
			t.Fatalf("ledger %d: transaction set hash", meta.LedgerSequence())
		}
		if i > 0 {
			before := ledgers[i-1].LedgerHeaderHistoryEntry()
			if header.Header.PreviousLedgerHash != before.Hash ||
				header.Header.LedgerSeq != before.Header.LedgerSeq+1 ||
				meta.V2.TxSet.V1TxSet.PreviousLedgerHash != before.Hash ||
				header.Header.ScpValue.CloseTime < before.Header.ScpValue.CloseTime {
				t.Fatalf("ledger %d does not follow ledger %d",
					header.Header.LedgerSeq, before.Header.LedgerSeq)
			}
		}
		for _, phase := range meta.V2.TxSet.V1TxSet.Phases {
			if phase.V0Components == nil || len(*phase.V0Components) == 0 {
				continue
			}
			for _, component := range *phase.V0Components {
				var last xdr.Hash
				for _, env := range component.TxsMaybeDiscountedFee.Txs {
					hash := hashXDR(t, env)
					if bytes.Compare(last[:], hash[:]) >= 0 {
						t.Fatalf("ledger %d: the transaction set is not sorted", meta.LedgerSequence())
					}
					last = hash
				}
			}
		}
		envelopes := map[xdr.Hash]xdr.TransactionEnvelope{}
		for _, env := range meta.TransactionEnvelopes() {
			hash, err := network.HashTransactionInEnvelope(env, passphrase)
			if err != nil {
				t.Fatal(err)
			}
			envelopes[hash] = env
		}
		var results xdr.TransactionResultSet
		for _, tx := range meta.V2.TxProcessing {
			if _, ok := envelopes[tx.Result.TransactionHash]; !ok {
				t.Fatalf("ledger %d: a result without its transaction", meta.LedgerSequence())
			}
			results.Results = append(results.Results, tx.Result)
			state.take(t, meta.LedgerSequence(), tx.FeeProcessing)
		}
		if len(envelopes) != len(results.Results) ||
			hashXDR(t, results) != header.Header.TxSetResultHash {
			t.Fatalf("ledger %d: results", meta.LedgerSequence())
		}
		for _, tx := range meta.V2.TxProcessing {
			claimsAreChanges(t, tx)
			v4 := tx.TxApplyProcessing.MustV4()
			state.take(t, meta.LedgerSequence(), v4.TxChangesBefore)
			for _, op := range v4.Operations {
				state.take(t, meta.LedgerSequence(), op.Changes)
			}
		}
		state.holds(t)
		if ledgers[0].LedgerSequence() == 2 { // otherwise the reader doesn't know every account
			var total int64
			for _, entry := range state {
				if entry.Data.Type == xdr.LedgerEntryTypeAccount {
					total += int64(entry.Data.Account.Balance)
				}
				if b := entry.Data.ClaimableBalance; b != nil && b.Asset.IsNative() {
					total += int64(b.Amount)
				}
			}
			if total+int64(header.Header.FeePool) != int64(header.Header.TotalCoins) {
				t.Fatalf("ledger %d: %d stroops and a fee pool of %d are not %d", meta.LedgerSequence(), total,
					header.Header.FeePool, header.Header.TotalCoins)
			}
		}
	}
	return state
}

// claimsAreChanges checks that each trade in a result changed the seller's account.
func claimsAreChanges(t testing.TB, tx xdr.TransactionResultMetaV1) {
	t.Helper()
	results, _ := tx.Result.Result.OperationResults()
	if !tx.Result.Result.Successful() {
		results = nil
	}
	for i, result := range results {
		changed := map[string]bool{}
		for _, change := range tx.TxApplyProcessing.MustV4().Operations[i].Changes {
			if change.State != nil && change.State.Data.Account != nil {
				changed[change.State.Data.Account.AccountId.Address()] = true
			}
		}
		for _, claim := range claimed(result) {
			if seller := claim.SellerId(); !changed[seller.Address()] {
				t.Fatalf("operation %d claims a trade with %s, which does not change", i+1, seller.Address())
			}
		}
	}
}

func claimed(result xdr.OperationResult) []xdr.ClaimAtom {
	switch tr := result.Tr; tr.Type {
	case xdr.OperationTypePathPaymentStrictSend:
		return tr.PathPaymentStrictSendResult.Success.Offers
	case xdr.OperationTypePathPaymentStrictReceive:
		return tr.PathPaymentStrictReceiveResult.Success.Offers
	}
	return nil
}

// holds checks that each account counts its entries correctly and that balances are within their
// limits.
func (s replay) holds(t testing.TB) {
	t.Helper()
	owned := map[string]xdr.Uint32{}
	for _, entry := range s {
		if line := entry.Data.TrustLine; line != nil {
			owned[line.AccountId.Address()]++
			if line.Balance < 0 || line.Balance > line.Limit {
				t.Fatalf("a trustline of %d holds %d", line.Limit, line.Balance)
			}
		}
	}
	for _, entry := range s {
		a := entry.Data.Account
		if a == nil {
			continue
		}
		if count := owned[a.AccountId.Address()]; a.NumSubEntries != count || a.Balance < 0 {
			t.Fatalf("%s has %d entries, counts %d and holds %d", a.AccountId.Address(), count,
				a.NumSubEntries, a.Balance)
		}
	}
}

// verifyAll checks the chain, and that replaying it leads to the state that the network serves.
func (r *rig) verifyAll() replay {
	r.t.Helper()
	state := verifyChain(r.t, r.Passphrase(), r.ledgers())
	for key, want := range state {
		var ledgerKey xdr.LedgerKey
		if err := xdr.SafeUnmarshal([]byte(key), &ledgerKey); err != nil {
			r.t.Fatal(err)
		}
		if have := r.entry(ledgerKey); have == nil || !sameXDR(r.t, *have, want.Data) {
			r.t.Fatalf("served %+v, replayed %+v", have, want.Data)
		}
	}
	return state
}

func (r *rig) entry(key xdr.LedgerKey) *xdr.LedgerEntryData {
	r.t.Helper()
	text, err := xdr.MarshalBase64(key)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := r.rpc.GetLedgerEntries(context.Background(),
		protocol.GetLedgerEntriesRequest{Keys: []string{text}})
	if err != nil {
		r.t.Fatal(err)
	}
	if len(answer.Entries) == 0 {
		return nil
	}
	var data xdr.LedgerEntryData
	if err := xdr.SafeUnmarshalBase64(answer.Entries[0].DataXDR, &data); err != nil {
		r.t.Fatal(err)
	}
	return &data
}

func (r *rig) lumens(address string) int64 {
	r.t.Helper()
	id := xdr.MustAddress(address)
	key, _ := id.LedgerKey()
	if data := r.entry(key); data != nil {
		return int64(data.Account.Balance)
	}
	return -1
}

func (r *rig) trustline(address string) *xdr.TrustLineEntry {
	r.t.Helper()
	asset, err := r.demo.ToXDR()
	if err != nil {
		r.t.Fatal(err)
	}
	var key xdr.LedgerKey
	if err := key.SetTrustline(xdr.MustAddress(address), asset.ToTrustLineAsset()); err != nil {
		r.t.Fatal(err)
	}
	if data := r.entry(key); data != nil {
		return data.TrustLine
	}
	return nil
}

func hashXDR(t testing.TB, v encodable) xdr.Hash {
	t.Helper()
	raw, err := v.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(raw)
}

func sameXDR(t testing.TB, a, b encodable) bool {
	t.Helper()
	return hashXDR(t, a) == hashXDR(t, b)
}
