package measuring

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

const watches = 500

// Payments are payments to 500 wallets, each of which leads to a delivery to the next of the
// endpoints.
type Payments struct {
	Account   string
	Endpoints []string
	Label     string // a part of each watch's label, and so of the body
}

// address looks like one of the network: to a compressor, too.
func address(kind string, n int) string {
	sum := sha256.Sum256([]byte(kind + strconv.Itoa(n)))
	return "G" + base32.StdEncoding.EncodeToString(sum[:])[:52] + kind[:3]
}

// EventID is that of the n-th delivery of a run.
func EventID(run string, n int) string { return domain.EventID(run, strconv.Itoa(n)) }

// Match is the match of the n-th delivery of a run.
func (p Payments) Match(run string, n int) streams.Record {
	m := p.match(run, n)
	message := schemas.EncodePaymentMatched(m,
		domain.NewPaymentEvent(m, time.Now().UnixMilli()))
	return streams.NewRecord(schemas.TopicMatches, m.Watch.EndpointID, message.Value,
		message.EachHeader)
}

// Body is what is posted for it: about 760 bytes of JSON and the label.
func (p Payments) Body(run string, n int) []byte {
	return domain.NewPaymentEvent(p.match(run, n), time.Now().UnixMilli()).Body
}

func (p Payments) match(run string, n int) domain.Match {
	hash := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(run), uint64(n)))
	watch := n % watches
	label := "till " + strconv.Itoa(watch) + " of a shop with an address and a street" + p.Label
	return domain.Match{
		EventID: EventID(run, n),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            "wat_" + strconv.Itoa(watch),
			AccountID:     p.Account,
			EndpointID:    p.Endpoints[n%len(p.Endpoints)],
			WalletAddress: address("wallet", watch),
			Label:         label,
		},
		Payment: domain.Payment{
			ID:             strconv.Itoa(n),
			TxHash:         hex.EncodeToString(hash[:]),
			Ledger:         uint32(50_000_000 + n/100), // #nosec G115 -- some millions
			ClosedAtMillis: time.Now().UnixMilli(),
			Operation:      "payment",
			From:           address("sender", n),
			To:             address("wallet", watch),
			Memo:           domain.Memo{Type: domain.MemoText, Raw: []byte("order " + strconv.Itoa(n))},
			Asset:          domain.NativeAsset(),
			AmountStroops:  int64(1_000_000 + n*7919%50_000_000),
		},
	}
}
