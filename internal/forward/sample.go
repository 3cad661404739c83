package forward

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

// Sample is the content of a synthetic event. No payment or account behind it exists: the
// transaction hash and the ids of the payment and the watch are zeros.
type Sample struct {
	amount, memo, asset string
	from, to            string
}

// Register adds the flags.
func (s *Sample) Register(f *pflag.FlagSet) {
	f.StringVar(&s.amount, "amount", "12.5", "amount of the sample payment")
	f.StringVar(&s.memo, "memo", "sample", "memo of the sample payment; leave empty for no memo")
	f.StringVar(&s.asset, "asset", domain.NativeCode, "asset of the sample payment: XLM or "+
		"CODE:ISSUER")
	f.StringVar(&s.from, "from", domain.SampleAccount, "account that sends the sample payment")
	f.StringVar(&s.to, "to-wallet", domain.SampleAccount, "wallet that receives the sample payment")
}

// Match returns the sample's payment and the result of its verification.
func (s *Sample) Match(kind domain.EventType, now time.Time) (domain.Match, error) {
	stroops, err := domain.ParseAmount(s.amount)
	if err != nil {
		return domain.Match{}, fmt.Errorf("--amount %q: %w", s.amount, err)
	}
	asset, err := assetOf(s.asset)
	if err != nil {
		return domain.Match{}, err
	}
	for flag, address := range map[string]string{"from": s.from, "to-wallet": s.to} {
		if !strkey.IsValidEd25519PublicKey(address) {
			return domain.Match{}, fmt.Errorf("--%s: must be a Stellar address: 56 characters that start "+
				"with G", flag) // not shown: it may be a secret key
		}
	}
	m := domain.SampleMatch(now.UnixMilli())
	m.Type = kind
	m.Payment.AmountStroops, m.Payment.Asset = stroops, asset
	m.Payment.From, m.Payment.To, m.Watch.WalletAddress = s.from, s.to, s.to
	m.Payment.Memo = domain.Memo{}
	if s.memo != "" {
		m.Payment.Memo = domain.Memo{Type: domain.MemoText, Raw: []byte(s.memo)}
	}
	if kind == domain.PaymentRejected {
		m.Verification = domain.Verification{
			Outcome: domain.OutcomeRejected,
			Reasons: []domain.Reason{domain.ReasonAmountMismatch},
		}
	}
	return m, nil
}

func assetOf(text string) (domain.Asset, error) {
	code, issuer, issued := strings.Cut(text, ":")
	if text == domain.NativeCode {
		return domain.NativeAsset(), nil
	}
	if !issued || code == "" || len(code) > 12 || !strkey.IsValidEd25519PublicKey(issuer) {
		return domain.Asset{}, errors.New("--asset: must be XLM, or CODE:ISSUER with a code of 1 to 12 " +
			"characters and the issuer's G… address")
	}
	return domain.Asset{Code: code, Issuer: issuer}, nil
}

// Sign returns an event as it is posted, with a signature for a time.
func Sign(
	secrets []domain.Secret, id, body string, sequence int64, at time.Time,
) client.PulledEvent {
	seconds := at.Unix()
	return client.PulledEvent{
		Sequence: sequence,
		Headers: client.DeliveryHeaders{
			ID:        id,
			Timestamp: strconv.FormatInt(seconds, 10),
			Signature: domain.SignatureHeader(secrets, seconds, []byte(body)),
			Sequence:  strconv.FormatInt(cmp.Or(sequence, 1), 10),
		},
		Body: body,
	}
}
