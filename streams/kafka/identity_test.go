package kafka

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// If the client gets another epoch during a turn, the records before it are aborted. The rest must
// not be committed as if they were the complete turn.
func TestATurnIsOfOneProducer(t *testing.T) {
	owner := newOwner(t)
	sum := func() *kgo.Record { return &kgo.Record{Topic: "test.sums", Value: []byte("1")} }
	err := owner.inOne(t.Context(), []*kgo.Record{sum()}, func(identity) error {
		// End the open transaction, as if the client had to ask for a new epoch.
		if err := owner.client.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			return err
		}
		if err := owner.client.BeginTransaction(); err != nil {
			return err
		}
		return owner.client.ProduceSync(t.Context(), sum()).FirstErr()
	})
	if err == nil || !strings.Contains(err.Error(), "not part of it") {
		t.Errorf("the turn ended with %v", err)
	}
}

// A transaction without records must be an error, because the client would return nil and commit
// nothing, not even the positions.
func TestATransactionWithoutRecordsIsAnError(t *testing.T) {
	owner := newOwner(t)
	if err := owner.inOne(t.Context(), nil, func(identity) error { return nil }); err == nil {
		t.Error("nothing was committed, and there is no error")
	}
	sum := &kgo.Record{Topic: "test.sums", Value: []byte("1")}
	err := owner.inOne(t.Context(), []*kgo.Record{sum}, func(identity) error { return nil })
	if err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func newOwner(t *testing.T) transactions {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "test.sums"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c := Cluster{
		Brokers:  fake.ListenAddrs(),
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}
	owner, err := c.takeOver(t.Context(), "test.owner", kgo.ManualPartitioner())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	return owner
}
