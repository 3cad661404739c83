package directory

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// The first bytes of the store's keys (doc.go).
const (
	spaceAccounts   = store.FirstKey + 0
	spaceEndpoints  = store.FirstKey + 1
	spaceWatches    = store.FirstKey + 2
	spaceKeyHashes  = store.FirstKey + 3
	spaceWallets    = store.FirstKey + 4
	spaceComplete   = store.FirstKey + 6
	spaceLists      = store.FirstKey + 7
	spaceKeyUses    = store.FirstKey + 8
	spaceBackfills  = store.FirstKey + 9
	spaceUnadmitted = store.FirstKey + 10
	spaceCounts     = store.FirstKey + 11
)

var completeKey = []byte{spaceComplete}

func (t table) rowKey(id string) []byte {
	return append(append(make([]byte, 0, 1+len(id)), t.space), id...)
}

func hashKey(hash []byte) []byte {
	return append(append(make([]byte, 0, 1+len(hash)), spaceKeyHashes), hash...)
}

// packRow stores a row with the schema version of its record's headers: length of the version's
// name (1 byte), the name, the record's value.
func packRow(m schemas.Message) []byte {
	row := make([]byte, 0, 1+len(m.Version)+len(m.Value))
	row = append(append(row, byte(len(m.Version))), m.Version...)
	return append(row, m.Value...)
}

func unpackRow(typ string, row []byte) (schemas.Message, error) {
	if len(row) == 0 || len(row) < 1+int(row[0]) {
		return schemas.Message{}, fmt.Errorf("directory: a row of type %s is damaged: delete the "+
			"directory's folder to refill it", typ)
	}
	end := 1 + int(row[0])
	return schemas.Message{Type: typ, Version: string(row[1:end]), Value: row[end:]}, nil
}

func accountOf(row []byte) (domain.Account, error) {
	return decoded(row, "Account", schemas.DecodeAccount)
}

func endpointOf(row []byte) (domain.Endpoint, error) {
	return decoded(row, "Endpoint", schemas.DecodeEndpoint)
}
func keyUseOf(row []byte) (int64, error) {
	return decoded(row, "KeyUse", schemas.DecodeKeyUse)
}
func watchOf(row []byte) (domain.Watch, error) { return decoded(row, "Watch", schemas.DecodeWatch) }

func decoded[T any](row []byte, typ string, decode func(schemas.Message) (T, error)) (T, error) {
	var none T
	if row == nil {
		return none, nil
	}
	m, err := unpackRow(typ, row)
	if err != nil {
		return none, err
	}
	return decode(m)
}

type change struct {
	table  table
	id     string
	wallet string   // of a watch that is new or has moved to another wallet
	hashes []string // of the account's keys before and after
}

func apply(batch *store.Batch, rec kafka.Record) (change, error) {
	id := string(rec.Key)
	var (
		c   change
		err error
	)
	switch rec.Topic {
	case accounts.topic:
		c, err = applyAccount(batch, id, rec)
	case endpoints.topic:
		c, err = applyEndpoint(batch, id, rec)
	case watches.topic:
		c, err = applyWatch(batch, id, rec)
	case keyUses.topic:
		c = change{table: keyUses, id: id}
		_, err = replace(batch, keyUses, id, rec, schemas.DecodeKeyUse, func(int64) string { return id })
	default:
		err = fmt.Errorf("directory: unknown table %s", rec.Topic)
	}
	if err != nil {
		return c, fmt.Errorf("directory: record %d of %s/%d: %w", rec.Offset, rec.Topic, rec.Partition,
			err)
	}
	return c, nil
}

func applyAccount(batch *store.Batch, id string, rec kafka.Record) (change, error) {
	before, _, err := readRow(batch, accounts, id, accountOf)
	if err != nil {
		return change{}, err
	}
	after, err := replace(batch, accounts, id, rec, schemas.DecodeAccount,
		func(a domain.Account) string { return a.ID })
	if err != nil {
		return change{}, err
	}
	c := change{table: accounts, id: id}
	for _, k := range before.Keys {
		c.hashes = append(c.hashes, string(k.Hash))
		err = errors.Join(err, batch.Delete(hashKey(k.Hash)))
	}
	for _, k := range after.Keys {
		c.hashes = append(c.hashes, string(k.Hash))
		err = errors.Join(err, batch.Set(hashKey(k.Hash), []byte(id)))
	}
	return c, errors.Join(err,
		recount(batch, id, func(_, quotas *domain.Counts) { *quotas = after.Quotas }))
}

func applyEndpoint(batch *store.Batch, id string, rec kafka.Record) (change, error) {
	before, was, err := readRow(batch, endpoints, id, endpointOf)
	if err != nil {
		return change{}, err
	}
	after, err := replace(batch, endpoints, id, rec, schemas.DecodeEndpoint,
		func(e domain.Endpoint) string { return e.ID })
	if err == nil {
		err = errors.Join(relist(batch, placesOfEndpoint(before), placesOfEndpoint(after)),
			count(batch, cmp.Or(after.AccountID, before.AccountID), stored(after.CountsOf(), len(rec.Value)),
				stored(before.CountsOf(), was)))
	}
	return change{table: endpoints, id: id}, err
}

func applyWatch(batch *store.Batch, id string, rec kafka.Record) (change, error) {
	before, was, err := readRow(batch, watches, id, watchOf)
	if err != nil {
		return change{}, err
	}
	after, err := replace(batch, watches, id, rec, schemas.DecodeWatch,
		func(w domain.Watch) string { return w.ID })
	c := change{table: watches, id: id}
	if err != nil {
		return c, err
	}
	if after.WalletAddress != before.WalletAddress {
		c.wallet = after.WalletAddress
	}
	for _, placesOf := range []func(domain.Watch) [][]byte{placesOfWatch, walletOf, backfillsOf} {
		if err := relist(batch, placesOf(before), placesOf(after)); err != nil {
			return c, err
		}
	}
	err = count(batch, cmp.Or(after.AccountID, before.AccountID),
		stored(after.CountsOf(), len(rec.Value)), stored(before.CountsOf(), was))
	return c, errors.Join(err, indexUnadmitted(batch, before, after))
}

func countsKey(accountID string) []byte {
	return append(append(make([]byte, 0, 1+len(accountID)), spaceCounts), accountID...)
}

func stored(c domain.Counts, rowBytes int) domain.Counts {
	if c != (domain.Counts{}) {
		c.StoredBytes = uint64(rowBytes) // #nosec G115 -- a length
	}
	return c
}

func count(batch *store.Batch, accountID string, added, taken domain.Counts) error {
	return recount(batch, accountID, func(used, _ *domain.Counts) { *used = used.Plus(added, taken) })
}

// recount changes what an account has and may have. Both are in one short entry: a request that
// checks them does not read the account's row with all its keys.
func recount(batch *store.Batch, accountID string, change func(used, quotas *domain.Counts)) error {
	before, err := batch.Get(countsKey(accountID))
	if err != nil {
		return err
	}
	used, quotas := countsOf(before)
	change(&used, &quotas)
	var after []byte
	for _, c := range []*domain.Counts{&used, &quotas} {
		for _, q := range domain.QuotaList() {
			after = binary.BigEndian.AppendUint64(after, *q.Of(c))
		}
	}
	if bytes.Equal(before, after) {
		return nil
	}
	return batch.Set(countsKey(accountID), after)
}

func countsOf(value []byte) (used, quotas domain.Counts) {
	for _, c := range []*domain.Counts{&used, &quotas} {
		for _, q := range domain.QuotaList() {
			if len(value) >= 8 {
				*q.Of(c), value = binary.BigEndian.Uint64(value), value[8:]
			}
		}
	}
	return used, quotas
}

func readRow[T any](
	batch *store.Batch, t table, id string, decode func([]byte) (T, error),
) (value T, size int, err error) {
	row, err := batch.Get(t.rowKey(id))
	if err != nil {
		return value, 0, err
	}
	if len(row) > 0 {
		size = max(0, len(row)-1-int(row[0]))
	}
	value, err = decode(row)
	return value, size, err
}

// unreadable means that a record is not a row. Nothing of it was written.
type unreadable struct{ error }

func (e unreadable) Unwrap() error { return e.error }

// replace writes a record's row. For a tombstone, it deletes the row and returns the zero value.
func replace[T any](
	batch *store.Batch, t table, id string, rec kafka.Record,
	decode func(schemas.Message) (T, error),
	idOf func(T) string,
) (T, error) {
	after, gone, err := intake.Row(rec, decode, idOf)
	switch {
	case errors.Is(err, schemas.ErrNewer):
		return after, err
	case err != nil:
		return after, unreadable{err}
	case gone:
		return after, batch.Delete(t.rowKey(id))
	}
	return after, batch.Set(t.rowKey(id), packRow(schemas.Read(rec.Value, rec)))
}
