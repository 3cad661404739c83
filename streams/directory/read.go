package directory

import (
	"bytes"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
)

const watchPage = 256 // ids read at a time

type ownedKey struct {
	key       domain.Key
	accountID string
}

// KeyByHash returns an API key and its account by the key's SHA-256. The key is shared, so callers
// must not change it.
func (d *Directory) KeyByHash(
	hash []byte,
) (key domain.Key, accountID string, found bool, err error) {
	owned, found, err := d.keys.get(string(hash), func() (ownedKey, bool, error) {
		return d.readKey(hash)
	})
	return owned.key, owned.accountID, found, err
}

func (d *Directory) readKey(hash []byte) (owned ownedKey, found bool, err error) {
	id, err := d.store.Get(hashKey(hash))
	if err != nil || id == nil {
		return ownedKey{}, false, err
	}
	a, found, err := d.Account(string(id))
	if err != nil || !found {
		return ownedKey{}, false, err
	}
	for _, k := range a.Keys {
		if bytes.Equal(k.Hash, hash) {
			return ownedKey{key: k, accountID: a.ID}, true, nil
		}
	}
	return ownedKey{}, false, nil
}

// Account returns an account's row.
func (d *Directory) Account(id string) (domain.Account, bool, error) {
	return get(d, accounts, id, accountOf)
}

// Counts returns an account's usage, except for keys, and its quotas.
func (d *Directory) Counts(accountID string) (used, quotas domain.Counts, err error) {
	value, err := d.store.Get(countsKey(accountID))
	used, quotas = countsOf(value)
	return used, quotas.Or(domain.DefaultQuotas()), err
}

// Endpoint returns an endpoint's row. It is shared, so callers must not change what it points to.
func (d *Directory) Endpoint(id string) (domain.Endpoint, bool, error) {
	return d.endpoints.get(id, func() (domain.Endpoint, bool, error) { return d.readEndpoint(id) })
}

func (d *Directory) readEndpoint(id string) (domain.Endpoint, bool, error) {
	return get(d, endpoints, id, endpointOf)
}

// Watch returns a watch's row.
func (d *Directory) Watch(id string) (domain.Watch, bool, error) {
	return get(d, watches, id, watchOf)
}

// KeyUsedAt returns when a key was last used, to the minute, or 0 if never or unknown.
func (d *Directory) KeyUsedAt(keyID string) (millis int64, err error) {
	millis, _, err = get(d, keyUses, keyID, keyUseOf)
	return millis, err
}

// expiredPage is the number of records that ExpiredSessions reads.
const expiredPage = 64

// ExpiredSessions returns the ended console sessions, among the next records from an id on, that
// would have expired by now. Ids are random, so calls with fresh ids find all of them over time.
func (d *Directory) ExpiredSessions(from string, nowMillis int64) (ids []string, err error) {
	rows := 0
	err = d.store.Scan(keyUses.rowKey(from), endOf(keyUses.rowKey("ses_")),
		func(key, row []byte) (bool, error) {
			until, err := keyUseOf(row)
			if err == nil && until <= nowMillis {
				ids = append(ids, string(key[1:]))
			}
			rows++
			return rows < expiredPage, err
		})
	return ids, err
}

func get[T any](d *Directory, t table, id string, decode func([]byte) (T, error)) (T, bool, error) {
	row, err := d.store.Get(t.rowKey(id))
	if err != nil {
		var none T
		return none, false, fmt.Errorf("directory: %s %s: %w", t.topic, id, err)
	}
	value, err := decode(row)
	if err != nil {
		return value, false, fmt.Errorf("directory: %s %s: %w", t.topic, id, err)
	}
	return value, row != nil, nil
}

// EachWatchOfWallet calls take for each watch of a wallet, by a hash of its account, newest first,
// until take fails. It keeps at most a few hundred ids in memory.
func (d *Directory) EachWatchOfWallet(wallet string, take func(domain.Watch) error) error {
	if !d.wallets.mayHave(wallet) {
		return nil
	}
	from := walletPrefix(wallet)
	upper := endOf(from)
	for {
		ids, last, err := d.watchesOfWallet(from, upper)
		if err != nil {
			return fmt.Errorf("directory: the watches of %s: %w", wallet, err)
		}
		for _, id := range ids {
			w, found, err := d.Watch(id)
			if err != nil {
				return err
			}
			if !found || w.WalletAddress != wallet {
				continue // changed since the index was read
			}
			if err := take(w); err != nil {
				return err
			}
		}
		if len(ids) < watchPage {
			return nil
		}
		from = append(last, 0)
	}
}

func (d *Directory) watchesOfWallet(from, upper []byte) (ids []string, last []byte, err error) {
	prefix := len(upper)
	err = d.store.Scan(from, upper, func(key, _ []byte) (bool, error) {
		ids = append(ids, string(key[prefix+walletListBytes+entryTimeBytes:]))
		last = append(last[:0], key...)
		return len(ids) < watchPage, nil
	})
	return ids, last, err
}

// EachMatchingWatch is EachWatchOfWallet without deleted watches.
func (d *Directory) EachMatchingWatch(wallet string, take func(domain.Watch) error) error {
	return d.EachWatchOfWallet(wallet, func(w domain.Watch) error {
		if w.Deleted() {
			return nil
		}
		return take(w)
	})
}
