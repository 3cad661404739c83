package directory

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// The directory refuses a cached key as soon as it has read the revocation. A cached endpoint is
// always the latest version.
func TestWhatIsKeptEndsWithItsRow(t *testing.T) {
	d := openFiltered(t, vfs.NewMem(), 0)
	defer func() { _ = d.Close() }()
	var at read
	take := func(records ...kafka.Record) {
		t.Helper()
		at += read(len(records))
		if err := d.Take(at, records); err != nil {
			t.Fatal(err)
		}
	}
	account := func(version uint64, keys ...domain.Key) kafka.Record {
		return row(schemas.TopicAccounts, "acc_1",
			schemas.EncodeAccount(domain.Account{ID: "acc_1", Version: version, Keys: keys}))
	}
	endpoint := func(version uint64) kafka.Record {
		return row(schemas.TopicEndpoints, "ep_1",
			schemas.EncodeEndpoint(domain.Endpoint{ID: "ep_1", Version: version, Status: "active"}))
	}
	holds := func(when, wantKeys, wantEndpoint string) {
		t.Helper()
		for range 2 { // the second read finds it in the cache
			keys := ""
			for _, hash := range []string{"a", "b"} {
				key, owner, found, err := d.KeyByHash([]byte(hash))
				if err != nil || found != (owner == "acc_1") {
					t.Fatal(err, owner)
				}
				keys += key.Name
			}
			e, found, err := d.Endpoint("ep_1")
			if err != nil {
				t.Fatal(err)
			}
			if have := fmt.Sprint(e.Version, found); keys != wantKeys || have != wantEndpoint {
				t.Errorf("%s: keys %q and endpoint %s, want %q and %s", when, keys, have, wantKeys,
					wantEndpoint)
			}
		}
	}
	first := domain.Key{ID: "key_a", Hash: []byte("a"), Name: "A"}
	second := domain.Key{ID: "key_b", Hash: []byte("b"), Name: "B"}
	holds("before all", "", "0 false")
	take(account(1, first), endpoint(1))
	holds("made", "A", "1 true")
	take(account(2, first, second), endpoint(2))
	holds("another key", "AB", "2 true")
	take(account(3, second))
	holds("revoked", "B", "2 true")
	take(tombstone(schemas.TopicAccounts, "acc_1"), tombstone(schemas.TopicEndpoints, "ep_1"))
	holds("gone", "", "0 false")
}

// A value that was read while it changed is not cached, because it may be the old one.
func TestWhatIsReadWhileItChangesIsNotKept(t *testing.T) {
	c := newRowCache[int](2)
	value := 1
	get := func(key string, meanwhile func()) int {
		t.Helper()
		got, found, err := c.get(key, func() (int, bool, error) {
			read := value
			meanwhile()
			return read, true, nil
		})
		if err != nil || !found {
			t.Fatal(found, err)
		}
		return got
	}
	nothing := func() {}
	changes := func() { value = 2; c.drop("a") }
	if got := get("a", changes); got != 1 {
		t.Errorf("got %d", got)
	}
	if got := get("a", nothing); got != 2 {
		t.Errorf("after the change it is %d", got)
	}
	value = 3
	if got := get("a", nothing); got != 2 {
		t.Errorf("it was not kept: %d", got)
	}
	get("b", nothing)
	get("c", nothing)
	if got := get("a", nothing); got != 3 {
		t.Errorf("of two places, three were used: %d", got)
	}
	failed := errors.New("it cannot be read")
	if _, _, err := c.get("d", func() (int, bool, error) { return 0, false, failed }); err != failed {
		t.Error(err)
	}
}
