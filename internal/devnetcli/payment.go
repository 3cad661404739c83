package devnetcli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/txnbuild"

	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
)

// Payment is the flags of a payment.
type Payment struct {
	request devclient.PayRequest
	memo    memoFlags
	muxedID string
	changed func(name string) bool
}

// Register adds the flags.
func (p *Payment) Register(f *pflag.FlagSet) {
	f.StringVar(&p.request.To, "to", "", "wallet to pay: a G or M address")
	f.StringVar(&p.request.Amount, "amount", "", "amount, with up to 7 digits after the point")
	f.StringVar(&p.request.Asset, "asset", "", "CODE:ISSUER; lumens when not given")
	f.StringVar(&p.memo.text, "memo-text", "", "text memo, up to 28 bytes")
	f.StringVar(&p.memo.id, "memo-id", "", "id memo")
	f.StringVar(&p.memo.hash, "memo-hash", "", "hash memo, 64 hex digits")
	f.StringVar(&p.muxedID, "muxed-id", "", "pay the muxed address of this id")
	p.changed = f.Changed
}

// Request is what is to be paid, but not by whom. All faults are named at once.
func (p *Payment) Request() (devclient.PayRequest, error) {
	r := p.request
	var memoErr, muxedErr error
	r.Memo, memoErr = p.memo.memo(p.changed)
	muxed := p.changed("muxed-id")
	if muxed {
		r.MuxedID, muxedErr = parseMuxedID(p.muxedID)
	}
	return r, errors.Join(checkWallet(r.To, muxed), CheckAmount(r.Amount), CheckAsset(r.Asset),
		memoErr, muxedErr)
}

// memoFlags are the three forms of a memo, of which one may be given.
type memoFlags struct{ text, id, hash string }

func (m memoFlags) memo(changed func(string) bool) (txnbuild.Memo, error) {
	var memos []txnbuild.Memo
	if changed("memo-text") {
		if len(m.text) > 28 {
			return nil, fmt.Errorf("--memo-text: %d bytes, and a memo holds at most 28", len(m.text))
		}
		memos = append(memos, txnbuild.MemoText(m.text))
	}
	if changed("memo-id") {
		id, err := strconv.ParseUint(m.id, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("--memo-id %q: "+
				"must be a number from 0 to 18446744073709551615", m.id)
		}
		memos = append(memos, txnbuild.MemoID(id))
	}
	if changed("memo-hash") {
		hash, err := hex.DecodeString(m.hash)
		if err != nil || len(hash) != 32 {
			return nil, fmt.Errorf("--memo-hash %q: must be 64 hex digits", m.hash)
		}
		memos = append(memos, txnbuild.MemoHash(hash))
	}
	switch len(memos) {
	case 0:
		return nil, nil
	case 1:
		return memos[0], nil
	}
	return nil, errors.New("--memo-text, --memo-id and --memo-hash: give one of them")
}

func parseMuxedID(text string) (*uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("--muxed-id %q: "+
			"must be a number from 0 to 18446744073709551615", text)
	}
	return &id, nil
}
