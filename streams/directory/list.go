package directory

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/streams/store"
)

// maxLooked bounds the rows that one page reads. With a rare filter, a page may end there.
const maxLooked = 2000

// maxLookedBytes bounds them by size. A page may exceed it by one row.
const maxLookedBytes = 1 << 20

// Kinds of lists, the second byte of their keys.
const (
	listEndpoints       = 'e' // scope: account
	listWatches         = 'w' // scope: account
	listWatchesEndpoint = 'p' // scope: account and endpoint
)

func listOf(kind byte, scope string) []byte {
	key := append(make([]byte, 0, 3+len(scope)), spaceLists, kind)
	return append(append(key, scope...), 0)
}

// walletPrefix returns the prefix of a wallet's watches in all accounts.
func walletPrefix(wallet string) []byte {
	key := append(make([]byte, 0, 2+len(wallet)), spaceWallets)
	return append(append(key, wallet...), 0)
}

// walletList returns the prefix of an account's watches of a wallet, which is both a list of the
// API and a part of the range that matching reads. Other accounts may have the same hash.
func walletList(wallet, accountID string) []byte {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(accountID))
	return append(hash.Sum(walletPrefix(wallet)), 0)
}

const walletListBytes = 4 + 1 // of a key after the wallet's prefix: hash, 0x00

// endOf returns the first key after all keys with a prefix, which ends with 0x00.
func endOf(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	end[len(end)-1]++
	return end
}

const entryTimeBytes = 8 // of the creation, in an entry's key

// entryKey returns the key of a list entry: newest first, then by id.
func entryKey(list []byte, createdAtMillis int64, id string) []byte {
	key := append(make([]byte, 0, len(list)+entryTimeBytes+len(id)), list...)
	key = binary.BigEndian.AppendUint64(key, math.MaxUint64-uint64(createdAtMillis))
	return append(key, id...)
}

func placesOfEndpoint(e domain.Endpoint) [][]byte {
	if !e.Exists() || e.Deleted() {
		return nil
	}
	return [][]byte{entryKey(listOf(listEndpoints, e.AccountID), e.CreatedAtMillis, e.ID)}
}

func placesOfWatch(w domain.Watch) [][]byte {
	if !w.Exists() || w.Deleted() {
		return nil
	}
	return [][]byte{
		entryKey(listOf(listWatches, w.AccountID), w.CreatedAtMillis, w.ID),
		entryKey(listOf(listWatchesEndpoint, w.AccountID+"/"+w.EndpointID), w.CreatedAtMillis, w.ID),
	}
}

// walletOf returns the wallet index key of a watch, even of a deleted one.
func walletOf(w domain.Watch) [][]byte {
	if w.WalletAddress == "" {
		return nil
	}
	return [][]byte{entryKey(walletList(w.WalletAddress, w.AccountID), w.CreatedAtMillis, w.ID)}
}

func relist(batch *store.Batch, before, after [][]byte) error {
	has := func(keys [][]byte, key []byte) bool {
		return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
	}
	for _, key := range before {
		if has(after, key) {
			continue
		}
		if err := batch.Delete(key); err != nil {
			return err
		}
	}
	for _, key := range after {
		if has(before, key) {
			continue
		}
		if err := batch.Set(key, nil); err != nil {
			return err
		}
	}
	return nil
}

// Endpoints returns at most limit endpoints of an account, newest first, after a position. next is
// nil at the end of the list. Any page may have fewer than limit endpoints.
func (d *Directory) Endpoints(
	f readmodel.EndpointFilter, after *readmodel.Position, limit int,
) (page []domain.Endpoint, next *readmodel.Position, err error) {
	entries := listOf(listEndpoints, f.AccountID)
	return list(d, entries, after, limit, endpoints, endpointOf, func(e domain.Endpoint) bool {
		return e.AccountID == f.AccountID && !e.Deleted() && (f.Status == "" || e.Status == f.Status)
	})
}

// Watches returns watches of an account, like [Directory.Endpoints].
func (d *Directory) Watches(
	f readmodel.WatchFilter, after *readmodel.Position, limit int,
) (page []domain.Watch, next *readmodel.Position, err error) {
	entries := listOf(listWatches, f.AccountID)
	switch {
	case f.WalletAddress != "":
		entries = walletList(f.WalletAddress, f.AccountID)
	case f.EndpointID != "":
		entries = listOf(listWatchesEndpoint, f.AccountID+"/"+f.EndpointID)
	}
	return list(d, entries, after, limit, watches, watchOf, func(w domain.Watch) bool {
		return w.AccountID == f.AccountID && !w.Deleted() &&
			(f.EndpointID == "" || w.EndpointID == f.EndpointID) &&
			(f.WalletAddress == "" || w.WalletAddress == f.WalletAddress)
	})
}

const (
	leftWatchesMax  = 100    // that LeftWatches returns
	leftWatchesRead = 10_000 // that it counts
	leftWatchesPage = 250
)

// LeftWatches returns how many watches, up to 10,000, lose their endpoint when it is deleted, and
// the ids of the first 100.
func (d *Directory) LeftWatches(accountID, endpointID string) (total int, ids []string, err error) {
	filter := readmodel.WatchFilter{AccountID: accountID, EndpointID: endpointID}
	ids = []string{}
	var page []domain.Watch
	var after *readmodel.Position
	for looked := 0; looked < leftWatchesRead; looked += max(1, len(page)) {
		if page, after, err = d.Watches(filter, after, leftWatchesPage); err != nil {
			return 0, nil, err
		}
		for _, w := range page {
			if total++; total <= leftWatchesMax {
				ids = append(ids, w.ID)
			}
		}
		if after == nil {
			break
		}
	}
	return total, ids, nil
}

// list reads a page. An object that changes in the meantime may be returned in either form.
func list[T any](
	d *Directory, entries []byte, after *readmodel.Position, limit int,
	t table, decode func([]byte) (T, error), keep func(T) bool,
) (page []T, next *readmodel.Position, err error) {
	lower, upper := entries, endOf(entries)
	if after != nil {
		lower = append(entryKey(entries, after.CreatedAtMillis, after.ID), 0)
	}
	var last readmodel.Position
	looked, lookedBytes, more := 0, 0, false
	err = d.store.Scan(lower, upper, func(key, _ []byte) (bool, error) {
		if looked == maxLooked || lookedBytes >= maxLookedBytes || len(page) == limit {
			more = true
			return false, nil
		}
		looked++
		last = readmodel.Position{
			CreatedAtMillis: int64(math.MaxUint64 - binary.BigEndian.Uint64(key[len(entries):])),
			ID:              string(key[len(entries)+entryTimeBytes:]),
		}
		row, err := d.store.Get(t.rowKey(last.ID))
		if err != nil || row == nil {
			return err == nil, err
		}
		lookedBytes += len(row)
		object, err := decode(row)
		if err != nil {
			return false, fmt.Errorf("%s %s: %w", t.topic, last.ID, err)
		}
		if keep(object) {
			page = append(page, object)
		}
		return true, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("directory: listing: %w", err)
	}
	if more {
		next = &last
	}
	return page, next, nil
}
