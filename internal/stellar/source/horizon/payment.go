package horizon

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// payments is a page of the list of payments.
type payments struct {
	Embedded struct {
		Records []record `json:"records"`
	} `json:"_embedded"`
}

// asset is named by three fields of whatever has one.
type asset struct {
	Type   string `json:"asset_type"`
	Code   string `json:"asset_code"`
	Issuer string `json:"asset_issuer"`
}

// record is an operation of the list; which fields it has depends on its type.
type record struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	TxHash     string `json:"transaction_hash"`
	Successful bool   `json:"transaction_successful"`
	asset

	From      string `json:"from"`
	To        string `json:"to"`
	ToMuxed   string `json:"to_muxed"` // M…; its id is not there when it is 0
	ToMuxedID string `json:"to_muxed_id"`
	Amount    string `json:"amount"`

	Funder          string `json:"funder"` // create_account
	Account         string `json:"account"`
	StartingBalance string `json:"starting_balance"`

	Into        string `json:"into"` // account_merge, which has an account too
	IntoMuxed   string `json:"into_muxed"`
	IntoMuxedID string `json:"into_muxed_id"`

	Changes []balanceChange `json:"asset_balance_changes"` // invoke_host_function

	Transaction transaction `json:"transaction"`
}

type balanceChange struct {
	asset
	Type      string `json:"type"`
	From      string `json:"from"`
	To        string `json:"to"`
	Amount    string `json:"amount"`
	ToMuxedID string `json:"destination_muxed_id"`
}

type transaction struct {
	MemoType  string  `json:"memo_type"`
	Memo      *string `json:"memo"`
	MemoBytes string  `json:"memo_bytes"`
	ResultXDR string  `json:"result_xdr"`
}

// payments reads what a record pays to G addresses.
func (r record) payments(of domain.Ledger) ([]domain.Payment, error) {
	if !r.Successful {
		return nil, nil
	}
	if !isHash(r.TxHash) {
		return nil, fmt.Errorf("payment %.40q has the transaction hash %.80q", r.ID, r.TxHash)
	}
	memo, err := r.Transaction.memo()
	if err != nil {
		return nil, fmt.Errorf("payment %s: the memo: %w", r.ID, err)
	}
	p := domain.Payment{
		ID:             r.ID,
		TxHash:         r.TxHash,
		Ledger:         of.Sequence,
		ClosedAtMillis: of.ClosedAtMillis,
		Operation:      r.Type,
		Memo:           memo,
	}
	var muxedErr error
	switch r.Type {
	case "create_account":
		p.From, p.To, p.Asset = r.Funder, r.Account, domain.NativeAsset()
		p.AmountStroops, err = domain.ParseAmount(r.StartingBalance)
	case "payment", "path_payment_strict_receive", "path_payment_strict_send":
		p.From, p.To, p.Asset = r.From, r.To, r.named()
		p.ToMuxedID, muxedErr = muxedID(r.To, r.ToMuxed, r.ToMuxedID)
		p.AmountStroops, err = domain.ParseAmount(r.Amount)
	case "account_merge":
		p.From, p.To, p.Asset = r.Account, r.Into, domain.NativeAsset()
		p.ToMuxedID, muxedErr = muxedID(r.Into, r.IntoMuxed, r.IntoMuxedID)
		p.AmountStroops, err = r.merged()
	case "invoke_host_function":
		return r.changes(p)
	default:
		return nil, nil
	}
	if err = errors.Join(err, muxedErr); err == nil {
		err = check(p)
	}
	if err != nil {
		return nil, fmt.Errorf("payment %s: %w", r.ID, err)
	}
	return []domain.Payment{p}, nil
}

// muxedID reads the id of a receiver's M address; "" when it has none. Horizon leaves
// the field of the id out when the id is 0, so that the address alone has it.
func muxedID(account, muxed, id string) (string, error) {
	if muxed == "" {
		return id, nil
	}
	address, err := strkey.DecodeMuxedAccount(muxed)
	if err != nil {
		return "", fmt.Errorf("the muxed address %.80q: %w", muxed, err)
	}
	if of, err := address.AccountID(); err != nil || of != account {
		return "", fmt.Errorf("the muxed address %.80q is not of the account %.60q", muxed, account)
	}
	found := strconv.FormatUint(address.ID(), 10)
	if id != "" && id != found {
		return "", fmt.Errorf("the muxed address %.80q has the id %s, not %.30q", muxed, found, id)
	}
	return found, nil
}

func (a asset) named() domain.Asset {
	if a.Type == "native" {
		return domain.NativeAsset()
	}
	return domain.Asset{Code: a.Code, Issuer: a.Issuer}
}

// hashSize is that of a transaction's hash, in hex.
const hashSize = 64

func isHash(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == hashSize
}

// check refuses what a changed API might leave out, and what no ledger could hold.
func check(p domain.Payment) error {
	from := strkey.IsValidEd25519PublicKey(p.From) || strkey.IsValidContractAddress(p.From)
	if !from || !strkey.IsValidEd25519PublicKey(p.To) {
		return fmt.Errorf("it is from %.60q to %.60q", p.From, p.To)
	}
	if p.ToMuxedID != "" {
		if _, err := strconv.ParseUint(p.ToMuxedID, 10, 64); err != nil {
			return fmt.Errorf("its muxed id is %.40q", p.ToMuxedID)
		}
	}
	if p.Asset == domain.NativeAsset() {
		return nil
	}
	if !xdr.ValidAssetCode.MatchString(p.Asset.Code) ||
		!strkey.IsValidEd25519PublicKey(p.Asset.Issuer) {
		return fmt.Errorf("its asset is %.80q", p.Asset)
	}
	return nil
}

// changes are the payments among the balance changes of a contract call.
func (r record) changes(call domain.Payment) (found []domain.Payment, err error) {
	for n, c := range r.Changes {
		if c.To == "" || c.To[0] != 'G' || c.Type != "transfer" && c.Type != "mint" {
			continue
		}
		p := call
		p.ID += "-" + strconv.Itoa(n)
		p.From, p.To, p.ToMuxedID, p.Asset = c.From, c.To, c.ToMuxedID, c.named()
		if c.Type == "mint" {
			p.From = c.Issuer
		}
		if p.AmountStroops, err = domain.ParseAmount(c.Amount); err != nil {
			if errors.Is(err, domain.ErrAmountRange) && p.To == c.Issuer {
				continue // a burn of what only contracts can hold
			}
			return nil, fmt.Errorf("payment %s: the amount %.60q: %w", p.ID, c.Amount, err)
		}
		if err := check(p); err != nil {
			return nil, fmt.Errorf("payment %s: %w", p.ID, err)
		}
		found = append(found, p)
	}
	return found, nil
}

// merged reads the amount of a merge, which the list does not tell, from the
// transaction's result. The operation's place is in its identifier (SEP-35).
func (r record) merged() (int64, error) {
	var result xdr.TransactionResult
	if err := xdr.SafeUnmarshalBase64(r.Transaction.ResultXDR, &result); err != nil {
		return 0, fmt.Errorf("the transaction's result cannot be read: %w", err)
	}
	id, err := strconv.ParseUint(r.ID, 10, 63)
	if err != nil {
		return 0, err
	}
	results, _ := result.OperationResults()
	i := int(id&(1<<12-1)) - 1
	if i < 0 || i >= len(results) {
		return 0, fmt.Errorf("its transaction has %d operations", len(results))
	}
	tr, _ := results[i].GetTr()
	merge, _ := tr.GetAccountMergeResult()
	if merge.SourceAccountBalance == nil {
		return 0, errors.New("the operation's result is not that of a merge")
	}
	return int64(*merge.SourceAccountBalance), nil
}

// memo reads a transaction's memo. A text's bytes may not be UTF-8, which JSON
// cannot say: then they are in a field of their own.
func (t transaction) memo() (m domain.Memo, err error) {
	text := ""
	if t.Memo != nil {
		text = *t.Memo
	}
	switch t.MemoType {
	case "none":
		return domain.Memo{}, nil
	case "text":
		m = domain.Memo{Type: domain.MemoText, Raw: []byte(text)}
		if t.MemoBytes != "" {
			m.Raw, err = base64.StdEncoding.DecodeString(t.MemoBytes)
		}
		return m, err
	case "id":
		if _, err = strconv.ParseUint(text, 10, 64); err != nil {
			return m, err
		}
		return domain.Memo{Type: domain.MemoID, Raw: []byte(text)}, nil
	case "hash", "return":
		m.Type = domain.MemoHash
		if t.MemoType == "return" {
			m.Type = domain.MemoReturn
		}
		if m.Raw, err = base64.StdEncoding.DecodeString(text); err == nil && len(m.Raw) != 32 {
			err = fmt.Errorf("a %s of %d bytes", t.MemoType, len(m.Raw))
		}
		return m, err
	}
	return m, fmt.Errorf("its type %.40q is not known (are the transactions joined?)", t.MemoType)
}
