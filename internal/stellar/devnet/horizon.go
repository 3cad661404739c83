package devnet

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stellar/go-stellar-sdk/amount"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// A small part of Horizon's REST API, for what follows payments there: the root, /ledgers,
// /payments and /accounts/{id}. Lists go forward only.

const (
	horizonPageDefault = 10
	horizonPageMax     = 200
)

func horizonFault(w http.ResponseWriter, status int, kind, detail string) {
	writeJSON(w, status, map[string]any{
		"type":  "https://stellar.org/horizon-errors/" + kind,
		"title": http.StatusText(status), "status": status, "detail": detail,
	})
}

// serveRoot says how far the network is.
func (n *Network) serveRoot(w http.ResponseWriter, _ *http.Request) {
	health, err := n.getHealth()
	if err != nil {
		horizonFault(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"horizon_version": "lumenhook-devnet", "network_passphrase": n.cfg.Passphrase,
		"history_elder_ledger": health.OldestLedger, "history_latest_ledger": health.LatestLedger,
		"history_latest_ledger_closed_at": horizonTime(health.LatestLedgerCloseTime),
		"core_latest_ledger":              health.LatestLedger,
		"ingest_latest_ledger":            health.LatestLedger,
		"current_protocol_version":        ProtocolVersion,
		"core_supported_protocol_version": ProtocolVersion,
	})
}

// horizonPage is what every list takes.
type horizonPage struct {
	cursor int64 // the records after it are wanted
	limit  int
	joined bool // with the transaction of each
}

func parsePage(r *http.Request) (p horizonPage, err error) {
	p.limit = horizonPageDefault
	q := r.URL.Query()
	if text := q.Get("cursor"); text != "" {
		if p.cursor, err = strconv.ParseInt(text, 10, 64); err != nil || p.cursor < 0 {
			return p, fmt.Errorf("cursor %q is not a paging token", text)
		}
	}
	if text := q.Get("limit"); text != "" {
		if p.limit, err = strconv.Atoi(text); err != nil || p.limit < 1 || p.limit > horizonPageMax {
			return p, fmt.Errorf("limit %q is not from 1 to %d", text, horizonPageMax)
		}
	}
	if order := q.Get("order"); order != "" && order != "asc" {
		return p, fmt.Errorf("order %q: the development network's lists go forward (asc) only", order)
	}
	p.joined = q.Get("join") == "transactions"
	return p, nil
}

// servePage serves what list finds.
func (n *Network) servePage(
	list func(t tip, r pebble.Reader, p horizonPage) ([]map[string]any, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := parsePage(r)
		if err != nil {
			horizonFault(w, http.StatusBadRequest, "bad_request", err.Error())
			return
		}
		select {
		case n.pages <- struct{}{}:
			defer func() { <-n.pages }()
		case <-r.Context().Done():
			return
		}
		records := []map[string]any{}
		err = n.read(func(t tip, r pebble.Reader) error {
			found, err := list(t, r, p)
			records = append(records, found...)
			return err
		})
		if err != nil {
			horizonFault(w, http.StatusInternalServerError, "server_error", err.Error())
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"_embedded": map[string]any{"records": records}})
	}
}

// listLedgers gives the ledgers after the cursor, which is that of a ledger: its sequence times
// 2^32.
func (n *Network) listLedgers(
	t tip, r pebble.Reader, p horizonPage,
) (records []map[string]any, err error) {
	first := max(uint32(p.cursor>>32)+1, t.oldest)
	for s := first; s <= t.latest && len(records) < p.limit; s++ {
		header, err := readHeader(r, s)
		if err != nil {
			return nil, err
		}
		succeeded, failed := 0, 0
		err = eachTransaction(r, s, func(tx *txRecord) error {
			if tx.success {
				succeeded++
			} else {
				failed++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		records = append(records, map[string]any{
			"id":           header.Hash.HexString(),
			"paging_token": strconv.FormatInt(int64(s)<<32, 10), "hash": header.Hash.HexString(),
			"prev_hash": header.Header.PreviousLedgerHash.HexString(), "sequence": s,
			"successful_transaction_count": succeeded, "failed_transaction_count": failed,
			"closed_at":        horizonTime(int64(header.Header.ScpValue.CloseTime)),
			"protocol_version": header.Header.LedgerVersion,
		})
	}
	return records, nil
}

// listPayments gives the payments after the cursor, an operation's identifier (SEP-35).
func (n *Network) listPayments(
	t tip, r pebble.Reader, p horizonPage,
) (records []map[string]any, err error) {
	for s := max(uint32(p.cursor>>32), t.oldest); s <= t.latest && len(records) < p.limit; s++ {
		err := eachTransaction(r, s, func(tx *txRecord) error {
			some, err := horizonPayments(tx, p.joined)
			for _, record := range some {
				if id, _ := strconv.ParseInt(record["id"].(string), 10, 64); id > p.cursor &&
					len(records) < p.limit {
					records = append(records, record)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// eachTransaction calls f with the transactions of a ledger in the order in which they were
// applied.
func eachTransaction(r pebble.Reader, sequence uint32, f func(*txRecord) error) error {
	index, ok, err := get(r, sequenceKey(keyTxIndex, sequence))
	if err != nil || !ok {
		return err
	}
	for ; len(index) >= len(xdr.Hash{}); index = index[len(xdr.Hash{}):] {
		tx, err := readTx(r, xdr.Hash(index[:len(xdr.Hash{})]))
		if err != nil {
			return err
		}
		if tx == nil {
			return fmt.Errorf("a transaction of ledger %d is missing from the devnet folder", sequence)
		}
		if err := f(tx); err != nil {
			return err
		}
	}
	return nil
}

// horizonPayments are the records of a transaction's payments.
func horizonPayments(tx *txRecord, joined bool) (records []map[string]any, err error) {
	if !tx.success {
		return nil, nil
	}
	var (
		envelope xdr.TransactionEnvelope
		result   xdr.TransactionResult
		meta     xdr.TransactionMeta
	)
	for raw, into := range map[*[]byte]any{
		&tx.envelope: &envelope,
		&tx.result:   &result,
		&tx.meta:     &meta,
	} {
		if err := xdr.SafeUnmarshal(*raw, into); err != nil {
			return nil, fmt.Errorf("decode a transaction of ledger %d: %w", tx.ledger, err)
		}
	}
	results, _ := result.OperationResults()
	for i, op := range envelope.Operations() {
		source := envelope.SourceAccount()
		if op.SourceAccount != nil {
			source = *op.SourceAccount
		}
		record := paymentRecord(source, op.Body, results[i], meta.V4.Operations[i].Events)
		if record == nil {
			continue
		}
		id := strconv.FormatUint(uint64(tx.ledger)<<32|uint64(tx.order)<<12|uint64(i+1), 10)
		record["id"], record["paging_token"], record["transaction_hash"] = id, id, tx.hash.HexString()
		record["transaction_successful"], record["created_at"] = true, horizonTime(tx.closeTime)
		record["source_account"], record["type_i"] = source.ToAccountId().Address(), op.Body.Type
		if joined {
			record["transaction"] = transactionRecord(tx, envelope)
		}
		records = append(records, record)
	}
	return records, nil
}

// paymentRecord is what depends on the operation; nil when it is no payment.
func paymentRecord(
	source xdr.MuxedAccount, body xdr.OperationBody, result xdr.OperationResult,
	events []xdr.ContractEvent,
) map[string]any {
	record := map[string]any{}
	switch body.Type {
	case xdr.OperationTypeCreateAccount:
		record["type"], record["funder"] = "create_account", source.ToAccountId().Address()
		record["account"], record["starting_balance"] = body.CreateAccountOp.Destination.Address(),
			amount.String(body.CreateAccountOp.StartingBalance)
	case xdr.OperationTypePayment:
		op := body.PaymentOp
		record["type"] = "payment"
		putMovement(record, source, op.Destination, op.Asset, op.Amount)
	case xdr.OperationTypePathPaymentStrictReceive:
		op := body.PathPaymentStrictReceiveOp
		record["type"] = "path_payment_strict_receive"
		putMovement(record, source, op.Destination, op.DestAsset, op.DestAmount)
	case xdr.OperationTypePathPaymentStrictSend:
		op := body.PathPaymentStrictSendOp
		record["type"] = "path_payment_strict_send"
		putMovement(record, source, op.Destination, op.DestAsset,
			result.Tr.PathPaymentStrictSendResult.Success.Last.Amount)
	case xdr.OperationTypeAccountMerge:
		record["type"] = "account_merge"
		putParty(record, "account", source)
		putParty(record, "into", *body.Destination)
	case xdr.OperationTypeInvokeHostFunction:
		record["type"], record["asset_balance_changes"] = "invoke_host_function", balanceChanges(events)
	default:
		return nil
	}
	return record
}

func putMovement(
	record map[string]any, from, to xdr.MuxedAccount, asset xdr.Asset, stroops xdr.Int64,
) {
	putParty(record, "from", from)
	putParty(record, "to", to)
	putAsset(record, asset)
	record["amount"] = amount.String(stroops)
}

// putParty names an account. As in Horizon, the id of a muxed address has a field of its
// own unless it is 0.
func putParty(record map[string]any, name string, account xdr.MuxedAccount) {
	record[name] = account.ToAccountId().Address()
	id, err := account.GetId()
	if err != nil {
		return
	}
	record[name+"_muxed"] = account.Address()
	if id != 0 {
		record[name+"_muxed_id"] = strconv.FormatUint(id, 10)
	}
}

func putAsset(record map[string]any, asset xdr.Asset) {
	var kind, code, issuer string
	asset.MustExtract(&kind, &code, &issuer)
	record["asset_type"] = kind
	if !asset.IsNative() {
		record["asset_code"], record["asset_issuer"] = code, issuer
	}
}

func putLiabilities(record map[string]any, l xdr.Liabilities) {
	record["buying_liabilities"], record["selling_liabilities"] = amount.String(l.Buying),
		amount.String(l.Selling)
}

// balanceChanges tells the events of the asset contracts, all of which are this network's own.
func balanceChanges(events []xdr.ContractEvent) []map[string]any {
	changes := []map[string]any{}
	for _, event := range events {
		topics, data := event.Body.V0.Topics, event.Body.V0.Data
		kind, parties := string(*topics[0].Sym), topics[1:len(topics)-1]
		change := map[string]any{"type": kind}
		if kind != "mint" {
			change["from"] = parties[0].Address.AccountId.Address()
		}
		if kind != "burn" {
			change["to"] = parties[len(parties)-1].Address.AccountId.Address()
		}
		stroops := data.I128
		if data.Map != nil {
			stroops = (**data.Map)[0].Val.I128
			change["destination_muxed_id"] = strconv.FormatUint(uint64(*(**data.Map)[1].Val.U64), 10)
		}
		change["amount"] = amount.StringFromInt64(int64(stroops.Lo))
		asset := xdr.MustNewNativeAsset()
		if name := string(*topics[len(topics)-1].Str); name != "native" {
			assets, err := xdr.BuildAssets(name)
			if err != nil {
				continue
			}
			asset = assets[0]
		}
		putAsset(change, asset)
		changes = append(changes, change)
	}
	return changes
}

func transactionRecord(tx *txRecord, envelope xdr.TransactionEnvelope) map[string]any {
	record := map[string]any{
		"id":         tx.hash.HexString(),
		"hash":       tx.hash.HexString(),
		"successful": tx.success, "ledger": tx.ledger, "created_at": horizonTime(tx.closeTime),
		"paging_token":    strconv.FormatUint(uint64(tx.ledger)<<32|uint64(tx.order)<<12, 10),
		"source_account":  envelope.SourceAccount().ToAccountId().Address(),
		"operation_count": len(envelope.Operations()),
		"envelope_xdr":    base64.StdEncoding.EncodeToString(tx.envelope),
		"result_xdr":      base64.StdEncoding.EncodeToString(tx.result),
		"result_meta_xdr": base64.StdEncoding.EncodeToString(tx.meta),
	}
	switch memo := envelope.Memo(); memo.Type {
	case xdr.MemoTypeMemoText:
		text := *memo.Text
		record["memo_type"], record["memo"], record["memo_bytes"] = "text", text,
			base64.StdEncoding.EncodeToString([]byte(text))
	case xdr.MemoTypeMemoId:
		record["memo_type"], record["memo"] = "id", strconv.FormatUint(uint64(*memo.Id), 10)
	case xdr.MemoTypeMemoHash:
		record["memo_type"], record["memo"] = "hash", base64.StdEncoding.EncodeToString(memo.Hash[:])
	case xdr.MemoTypeMemoReturn:
		record["memo_type"], record["memo"] = "return", base64.StdEncoding.EncodeToString(memo.RetHash[:])
	default:
		record["memo_type"] = "none"
	}
	return record
}

// serveAccount serves an account and its trustlines. As with Horizon, a header says after which
// ledger that was, also where there is no account.
func (n *Network) serveAccount(w http.ResponseWriter, r *http.Request) {
	address := r.PathValue("id")
	if !strkey.IsValidEd25519PublicKey(address) {
		horizonFault(w, http.StatusBadRequest, "bad_request",
			"the account must be given by its public address: G and 55 more characters")
		return
	}
	var record map[string]any
	err := n.read(func(t tip, r pebble.Reader) (err error) {
		w.Header().Set("Latest-Ledger", strconv.FormatUint(uint64(t.latest), 10))
		record, err = accountRecord(r, xdr.MustAddress(address))
		return err
	})
	switch {
	case err != nil:
		horizonFault(w, http.StatusInternalServerError, "server_error", err.Error())
	case record == nil:
		horizonFault(w, http.StatusNotFound, "not_found", "there is no account "+address)
	default:
		writeJSON(w, http.StatusOK, record)
	}
}

func accountRecord(r pebble.Reader, id xdr.AccountId) (map[string]any, error) {
	row, err := readEntry(r, accountKey(id))
	if err != nil || row == nil {
		return nil, err
	}
	balances, err := trustlineRecords(r, id)
	if err != nil {
		return nil, err
	}
	a, address := row.Data.Account, id.Address()
	lumens := map[string]any{"asset_type": "native", "balance": amount.String(a.Balance)}
	putLiabilities(lumens, a.Liabilities())
	balances = append(balances, lumens)
	return map[string]any{
		"id":           address,
		"account_id":   address,
		"paging_token": address, "sequence": strconv.FormatInt(int64(a.SeqNum), 10),
		"subentry_count":       a.NumSubEntries,
		"last_modified_ledger": row.LastModifiedLedgerSeq, "num_sponsoring": 0, "num_sponsored": 0,
		"thresholds": map[string]any{"low_threshold": 0, "med_threshold": 0, "high_threshold": 0},
		"flags": map[string]any{
			"auth_required":         false,
			"auth_revocable":        false,
			"auth_immutable":        false,
			"auth_clawback_enabled": false,
		},
		"signers": []map[string]any{{"key": address, "weight": 1, "type": "ed25519_public_key"}},
		"data":    map[string]any{}, "balances": balances, "_links": map[string]any{},
	}, nil
}

// trustlineRecords reads the rows that begin with the account's trustlines: a LedgerKey is its
// type, the account, and then the asset.
func trustlineRecords(r pebble.Reader, id xdr.AccountId) (records []map[string]any, err error) {
	prefix := binary.BigEndian.AppendUint32([]byte{keyEntry}, uint32(xdr.LedgerEntryTypeTrustline))
	raw, err := id.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encode an account: %w", err)
	}
	prefix = append(prefix, raw...)
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			break
		}
	}
	rows, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: end})
	if err != nil {
		return nil, fmt.Errorf("read trustlines: %w", err)
	}
	defer rows.Close()
	for ok := rows.First(); ok; ok = rows.Next() {
		var entry xdr.LedgerEntry
		if err := xdr.SafeUnmarshal(rows.Value(), &entry); err != nil {
			return nil, fmt.Errorf("decode a trustline: %w", err)
		}
		line := entry.Data.TrustLine
		record := map[string]any{
			"balance":                               amount.String(line.Balance),
			"limit":                                 amount.String(line.Limit),
			"is_authorized":                         true,
			"is_authorized_to_maintain_liabilities": true,
		}
		putAsset(record, line.Asset.ToAsset())
		putLiabilities(record, line.Liabilities())
		records = append(records, record)
	}
	return records, rows.Error()
}

func horizonTime(unixSeconds int64) string {
	return time.Unix(unixSeconds, 0).UTC().Format(time.RFC3339)
}
