package directory

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// An unreadable record leaves the previous row in place, and later records are still read.
// OnUnreadable is called once per unreadable record.
func TestWhatIsNoRowIsPassedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dead := make(map[string]int)
	d, err := Open(t.Context(), Config{
		Cluster:      r.cluster,
		Dir:          r.dir,
		CacheBytes:   1 << 20,
		Now:          r.clock.now,
		Logger:       r.cluster.Logger,
		OnUnreadable: func(topic string) { dead[topic]++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(t.Context()) }()
	noise := func(topic, key string) kafka.Record {
		return row(topic, key, schemas.Message{Type: "Watch", Version: "1", Value: []byte("\xff\xff")})
	}
	account := accountRow("acc_1", 1, "hash")
	w := r.txn("engine")
	w.write(
		watchRow("wat_1", "GA", 1), endpointRow("ep_1", "https://a", 1), account,
		noise(watches.topic, "wat_1"), noise(endpoints.topic, "ep_1"), noise(accounts.topic, "acc_1"),
		noise(keyUses.topic, "key_1"),
		row(watches.topic, "wat_other",
			schemas.EncodeWatch(domain.Watch{ID: "wat_1", Version: 7, WalletAddress: "GB"})),
		noise(watches.topic, ""),
	)
	w.write(watchRow("wat_1", "GA", 2))
	if err := d.AwaitWatch(soon(t), "wat_1", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CatchUp(soon(t)); err != nil {
		t.Fatal(err)
	}
	for id, read := range map[string]func(string) (bool, error){
		"wat_1": func(id string) (bool, error) {
			w, found, err := d.Watch(id)
			return found && w.WalletAddress == "GA", err
		},
		"ep_1": func(id string) (bool, error) {
			e, found, err := d.Endpoint(id)
			return found && e.URL == "https://a", err
		},
		"acc_1": func(id string) (bool, error) {
			a, found, err := d.Account(id)
			return found &&
				len(a.Keys) == 1, err
		},
	} {
		if kept, err := read(id); !kept || err != nil {
			t.Errorf("the row of %s is gone: %v", id, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("filling ended: %v", err)
	}
	if dead[watches.topic] != 3 || dead[endpoints.topic] != 1 || dead[accounts.topic] != 1 ||
		dead[keyUses.topic] != 1 {
		t.Errorf("told of %v", dead)
	}
}
