package main

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

const (
	account   = "acc_1"
	endpoints = 64
	watches   = 500
)

func endpointID(n int) string {
	return domain.DeriveID(domain.EndpointPrefix, "restoring", strconv.Itoa(n%endpoints))
}

// address looks like one of the network: to a compressor, too.
func address(kind string, n int) string {
	sum := sha256.Sum256([]byte(kind + strconv.Itoa(n)))
	return "G" + base32.StdEncoding.EncodeToString(sum[:])[:52] + kind[:3]
}

// eventID is that of the n-th delivery of a run.
func eventID(run string, n int) string { return domain.EventID(run, strconv.Itoa(n)) }

// match is the match of the n-th delivery of a run.
func match(run string, n int) streams.Record {
	hash := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(run), uint64(n)))
	watch := n % watches
	m := domain.Match{
		EventID: eventID(run, n),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            "wat_" + strconv.Itoa(watch),
			AccountID:     account,
			EndpointID:    endpointID(n),
			WalletAddress: address("wallet", watch),
			Label:         "till " + strconv.Itoa(watch) + " of a shop with an address and a street",
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
	message := schemas.EncodePaymentMatched(m,
		domain.NewPaymentEvent(m, time.Now().UnixMilli()))
	return streams.NewRecord(schemas.TopicMatches, m.Watch.EndpointID, message.Value,
		message.EachHeader)
}
