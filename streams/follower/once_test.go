package follower_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func (b *directory) claim(c domain.Command) domain.Result {
	w, rejection := b.ask(c.Body)
	return domain.Result{CommandID: c.ID, Answer: domain.Answer{Watch: &w, Rejection: rejection}}
}

// counter answers claims, and runs a hook before each.
type counter struct {
	directory *directory
	before    func(n int) // called with the number of the claim
	mu        sync.Mutex
	asked     []string // command IDs
}

func (c *counter) SubmitAll(
	_ context.Context, all []domain.Command,
) (results []domain.Result, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, command := range all {
		c.asked = append(c.asked, command.ID)
		c.before(len(c.asked))
		results = append(results, c.directory.claim(command))
	}
	return results, nil
}

func (b *directory) once(id, wallet string) {
	w := b.add(id, wallet)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.acknowledged {
		if b.acknowledged[i].ID == w.ID {
			b.acknowledged[i].Once = true
		}
	}
}

// A watch for one payment creates one event, for the first payment to its wallet, however often the
// ledger is read and however the watch's rules change.
func TestAWatchForOnePaymentMakesOneEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.once("wat_1", watched)
	first := r.pay(watched, "1")
	r.pay(watched, "2")
	r.pay(watched, "3")
	config := r.config()
	config.Start = follower.Start{Sequence: first.Ledger}
	config.Claims = &counter{directory: r.directory, before: func(int) {}}
	deaths := []func(kafka.Record) bool{
		func(record kafka.Record) bool { return record.Topic == schemas.TopicMatches },
		func(record kafka.Record) bool { return isCursor(record, first.Ledger) },
		func(record kafka.Record) bool { return isCursor(record, first.Ledger+2) },
	}
	for i, at := range deaths {
		if err := r.life(config, at); !errors.Is(err, errKilled) {
			t.Fatalf("life %d ended with %v", i, err)
		}
		r.directory.ask(domain.UpdateWatch{WatchID: "wat_1", Change: domain.WatchChange{
			Amount: &domain.AmountRule{Kind: domain.AmountMin, AmountStroops: 5 * domain.StroopsPerUnit},
		}})
	}
	matches := r.matches()
	if len(matches) != 1 || matches[0].Event.ID != domain.EventID("wat_1", r.observed()[0].ID) {
		t.Errorf("the events are %+v", matches)
	}
}

// If a watch changes before its claim, the claim is checked against the changed watch. A payment
// that no longer matches does not fulfil the watch, and the next one may.
func TestAClaimIsJudgedByTheWatchAsItIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.once("wat_1", watched)
	first := r.pay(watched, "1")
	r.pay(watched, "9")
	claims := &counter{directory: r.directory}
	claims.before = func(n int) {
		if n == 1 {
			r.directory.ask(domain.UpdateWatch{WatchID: "wat_1", Change: domain.WatchChange{
				Amount: &domain.AmountRule{Kind: domain.AmountMin, AmountStroops: 5 * domain.StroopsPerUnit},
				Label:  new("changed"),
			}})
		}
	}
	config := r.config()
	config.Start, config.Claims = follower.Start{Sequence: first.Ledger}, claims
	err := r.life(config, func(record kafka.Record) bool { return isCursor(record, first.Ledger+1) })
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	matches := r.matches()
	if len(matches) != 1 || matches[0].Event.ID != domain.EventID("wat_1", r.observed()[1].ID) {
		t.Errorf("the events are %+v", matches)
	}
}

// A watch that is deleted before its claim matches nothing and delays nothing.
func TestAClaimOfADeletedWatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.once("wat_1", watched)
	r.directory.add("wat_2", watched)
	paid := r.pay(watched, "1")
	config := r.config()
	config.Start = follower.Start{Sequence: paid.Ledger}
	config.Claims = &counter{directory: r.directory, before: func(int) {
		r.directory.ask(domain.DeleteWatch{WatchID: "wat_1"})
	}}
	err := r.life(config, func(record kafka.Record) bool { return isCursor(record, paid.Ledger) })
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if matches := r.matches(); len(matches) != 1 || matches[0].WatchID != "wat_2" {
		t.Errorf("the events are %+v", matches)
	}
}
