package directory

import (
	"bytes"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/store"
)

// backfillKey sorts by account, so that accounts can take turns.
func backfillKey(accountID, watchID string) []byte {
	key := append(make([]byte, 0, 2+len(accountID)+len(watchID)), spaceBackfills)
	return append(append(append(key, accountID...), 0), watchID...)
}

func backfillsOf(w domain.Watch) [][]byte {
	if !w.AwaitsFollower() {
		return nil
	}
	return [][]byte{backfillKey(w.AccountID, w.ID)}
}

func unadmittedKey(watchID string) []byte {
	return append(append(make([]byte, 0, 1+len(watchID)), spaceUnadmitted), watchID...)
}

func unadmittedOf(w domain.Watch) [][]byte {
	if w.ID == "" || w.LiveSince != 0 || w.Deleted() {
		return nil
	}
	return [][]byte{unadmittedKey(w.ID)}
}

// indexUnadmitted indexes a watch without a recorded first live ledger, unless it has missed
// ledgers because its endpoint is deleted: it cannot be admitted before another endpoint rewrites
// its row.
func indexUnadmitted(batch *store.Batch, before, after domain.Watch) error {
	listed := unadmittedOf(after)
	if len(listed) > 0 && after.MissedSince != 0 {
		e, _, err := readRow(batch, endpoints, after.EndpointID, endpointOf)
		if err != nil {
			return err
		}
		if e.Deleted() {
			listed = nil
		}
	}
	if len(listed) == 0 {
		return relist(batch, unadmittedOf(before), nil)
	}
	return relist(batch, nil, listed)
}

// EachUnadmitted calls take for each watch without a recorded first live ledger, by id, until take
// fails. It omits watches that have missed ledgers and whose endpoint is still deleted, which the
// index may contain. It keeps at most a few hundred ids in memory.
func (d *Directory) EachUnadmitted(take func(domain.Watch) error) error {
	return d.eachIndexed(spaceUnadmitted, unadmittedOf, func(w domain.Watch) error {
		if w.MissedSince != 0 {
			if e, _, err := d.Endpoint(w.EndpointID); err != nil || e.Deleted() {
				return err
			}
		}
		return take(w)
	})
}

// EachOpenPart calls take for each open part of a backfill, until take fails.
func (d *Directory) EachOpenPart(take func(domain.Part) error) error {
	return d.eachIndexed(spaceBackfills, backfillsOf, func(w domain.Watch) error {
		for _, part := range w.Parts {
			if err := take(part); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *Directory) eachIndexed(
	space byte, keysOf func(domain.Watch) [][]byte, take func(domain.Watch) error,
) error {
	from := []byte{space}
	for {
		keys, err := d.indexKeys(from, []byte{space + 1}, watchPage)
		if err != nil {
			return fmt.Errorf("directory: listing watches: %w", err)
		}
		for _, key := range keys {
			w, found, err := d.Watch(watchOfKey(key))
			if err != nil {
				return err
			}
			if !found || len(keysOf(w)) == 0 {
				continue // changed since the index was read
			}
			if err := take(w); err != nil {
				return err
			}
		}
		if len(keys) < watchPage {
			return nil
		}
		from = append(keys[len(keys)-1], 0)
	}
}

// NextBackfill returns the first watch with a backfill in progress or an open part after the given
// one, ordered by account and then by watch. Without a watch it starts at the next account, and
// without an account at the first.
func (d *Directory) NextBackfill(
	accountID, afterWatchID string,
) (w domain.Watch, found bool, err error) {
	lower := append(backfillKey(accountID, afterWatchID), 0)
	if afterWatchID == "" {
		lower[len(lower)-2]++ // after all watches of the account
	}
	keys, err := d.indexKeys(lower, []byte{spaceBackfills + 1}, 1)
	if err != nil {
		return w, false, fmt.Errorf("directory: looking for backfills: %w", err)
	}
	if len(keys) == 0 {
		return w, false, nil
	}
	if w, found, err = d.Watch(watchOfKey(keys[0])); err == nil &&
		(!found || !w.AwaitsFollower()) {
		return domain.Watch{}, false, nil // changed since the index was read
	}
	return w, found, err
}

func (d *Directory) indexKeys(lower, upper []byte, most int) (keys [][]byte, err error) {
	err = d.store.Scan(lower, upper, func(key, _ []byte) (bool, error) {
		keys = append(keys, bytes.Clone(key))
		return len(keys) < most, nil
	})
	return keys, err
}

func watchOfKey(key []byte) string { return string(key[1+bytes.LastIndexByte(key[1:], 0)+1:]) }
