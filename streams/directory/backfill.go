package directory

import (
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/store"
)

func backfillKey(watchID string) []byte {
	return append(append(make([]byte, 0, 1+len(watchID)), spaceBackfills), watchID...)
}

// backfillsOf returns the index key of a watch with a backfill in progress, or a part of one
// that is open.
func backfillsOf(w domain.Watch) [][]byte {
	if !w.AwaitsFollower() {
		return nil
	}
	return [][]byte{backfillKey(w.ID)}
}

func unadmittedKey(watchID string) []byte {
	return append(append(make([]byte, 0, 1+len(watchID)), spaceUnadmitted), watchID...)
}

// unadmittedOf returns the index key of a watch whose first live ledger is not recorded
// yet.
func unadmittedOf(w domain.Watch) [][]byte {
	if w.ID == "" || w.LiveSince != 0 || w.Deleted() {
		return nil
	}
	return [][]byte{unadmittedKey(w.ID)}
}

// indexUnadmitted lists a watch if its first live ledger is not recorded, unless it has missed
// ledgers because its endpoint is deleted: nobody can admit it before it has another, and then its
// row is written again.
func indexUnadmitted(batch *store.Batch, before, after domain.Watch) error {
	listed := unadmittedOf(after)
	if len(listed) > 0 && after.MissedSince != 0 {
		e, err := readRow(batch, endpoints, after.EndpointID, endpointOf)
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

// EachUnadmitted calls take for each watch whose first live ledger is not recorded, in the
// order of their ids, until it fails. It holds at most a few hundred ids at a time. A watch that
// has missed ledgers because its endpoint is deleted is passed once it has another: the index may
// list it before, if it was read before the deletion of its endpoint.
func (d *Directory) EachUnadmitted(take func(domain.Watch) error) error {
	return d.eachIndexed(unadmittedKey, unadmittedOf, func(w domain.Watch) error {
		if w.MissedSince != 0 {
			if e, _, err := d.Endpoint(w.EndpointID); err != nil || e.Deleted() {
				return err
			}
		}
		return take(w)
	})
}

// EachOpenPart calls take for each open part of a backfill, as EachUnadmitted does for
// watches.
func (d *Directory) EachOpenPart(take func(domain.Part) error) error {
	return d.eachIndexed(backfillKey, backfillsOf, func(w domain.Watch) error {
		for _, part := range w.Parts {
			if err := take(part); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachIndexed calls take for each watch that an index has.
func (d *Directory) eachIndexed(
	keyOf func(id string) []byte, keysOf func(domain.Watch) [][]byte, take func(domain.Watch) error,
) error {
	from := keyOf("")
	upper := []byte{from[0] + 1}
	for {
		ids, err := d.watchIDs(from, upper)
		if err != nil {
			return fmt.Errorf("directory: listing watches: %w", err)
		}
		for _, id := range ids {
			w, found, err := d.Watch(id)
			if err != nil {
				return err
			}
			if !found || len(keysOf(w)) == 0 {
				continue // it changed since the index was read
			}
			if err := take(w); err != nil {
				return err
			}
		}
		if len(ids) < watchPage {
			return nil
		}
		from = append(keyOf(ids[len(ids)-1]), 0)
	}
}

// NextBackfill returns the first watch after an id, in the order of ids, with a backfill in
// progress or an open part of one. An empty id comes before all.
func (d *Directory) NextBackfill(afterWatchID string) (w domain.Watch, found bool, err error) {
	lower, upper := append(backfillKey(afterWatchID), 0), []byte{spaceBackfills + 1}
	if afterWatchID == "" {
		lower = backfillKey("")
	}
	var ids []string
	err = d.store.Scan(lower, upper, func(key, _ []byte) (bool, error) {
		ids = append(ids, string(key[1:]))
		return false, nil
	})
	if err != nil {
		return w, false, fmt.Errorf("directory: looking for backfills: %w", err)
	}
	if len(ids) == 0 {
		return w, false, nil
	}
	if w, found, err = d.Watch(ids[0]); err == nil &&
		(!found || !w.AwaitsFollower()) {
		return domain.Watch{}, false, nil // it changed since the index was read
	}
	return w, found, err
}

// watchIDs returns a page of watch ids from an index by them.
func (d *Directory) watchIDs(lower, upper []byte) ([]string, error) {
	var ids []string
	err := d.store.Scan(lower, upper, func(key, _ []byte) (bool, error) {
		ids = append(ids, string(key[1:]))
		return len(ids) < watchPage, nil
	})
	return ids, err
}
