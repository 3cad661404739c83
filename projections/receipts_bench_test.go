package projections_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/receipt"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/writer"
)

const provedLeaves = 100_000

// BenchmarkProof proves attempts in a log of 100,000 leaves whose hashes are in ClickHouse, as
// for a receipt: the size of the log, the hashes, the proof and its signature. The baseline has
// the hashes in memory.
//
//	make bench-receipts
func BenchmarkProof(b *testing.B) {
	r := newRigAlone(b)
	must(b, writer.Migrate(b.Context(), r.db))
	name := receipt.Name{AccountID: testAccount, EndpointID: "ep_proved", From: 1}
	made, hashes := attemptsOf(name)
	batch, err := r.sql.PrepareBatch(b.Context(),
		"INSERT INTO attempt_log (endpoint_id, log_from, leaf, hashes, sent_at, version)")
	must(b, err)
	for i, one := range made {
		must(b, batch.Append(name.EndpointID, name.From, one.Entry.Number, string(one.Entry.Hashes),
			time.UnixMilli(startMillis), uint64(i+1))) // #nosec G115 -- not negative
	}
	must(b, batch.Send())
	history := history.New(history.Config{DB: r.db, Ends: r.journalEnds})
	key := domain.Secret(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	prove := func(b *testing.B, size uint64, read receipt.Hashes) {
		n := 0
		for b.Loop() {
			n = (n + 77_777) % provedLeaves
			if size == 0 {
				found, err := history.LogSize(b.Context(), name.EndpointID, name.From)
				must(b, err)
				if found != provedLeaves {
					b.Fatalf("the log has %d leaves", found)
				}
			}
			_, err := receipt.Prove(name, provedLeaves, 0, []receipt.Logged{{
				Record: made[n].Record(name.EndpointID),
				Number: made[n].Entry.Number,
			}}, read, []domain.Secret{key})
			must(b, err)
		}
	}
	b.Run("of the history", func(b *testing.B) {
		prove(b, 0, func(leaves []uint64) (map[uint64][]byte, error) {
			return history.LogHashes(b.Context(), name.EndpointID, name.From, leaves)
		})
	})
	b.Run("of memory", func(b *testing.B) {
		prove(b, provedLeaves, func([]uint64) (map[uint64][]byte, error) { return hashes, nil })
	})
}

// attemptsOf returns the attempts of a delivery, decided and folded as by an engine, and the
// hashes that each adds to the log.
func attemptsOf(name receipt.Name) (made []domain.AttemptMade, hashes map[uint64][]byte) {
	hashes = make(map[uint64][]byte, provedLeaves)
	endpoint := domain.Endpoint{
		ID:        name.EndpointID,
		AccountID: name.AccountID,
		Status:    domain.StatusActive,
	}
	delivery := domain.Delivery{EventID: "evt_proved", EndpointID: name.EndpointID, Version: 1, Run: 1}
	sum := sha256.Sum256([]byte("of a body, and of a signature"))
	for range provedLeaves {
		delivery.State = domain.StateQueued // always due, whatever the schedule says
		facts := domain.DecideAttempt(endpoint, delivery, delivery.Attempts+1, domain.AttemptResult{
			SentAtMillis:    startMillis,
			StatusCode:      500,
			BodySHA256:      sum[:],
			SignatureSHA256: sum[:],
		}, domain.Policy{}, 0)
		one := facts[0].(domain.AttemptMade)
		endpoint, delivery = domain.EvolveEndpoint(endpoint, delivery, domain.Fact{
			Aggregate: name.EndpointID,
			Version:   endpoint.Version + 1,
			Body:      one,
		})
		made, hashes[one.Entry.Number] = append(made, one), one.Entry.Hashes
	}
	return made, hashes
}
