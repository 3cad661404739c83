package devnet

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// The folder is a Pebble database. The first byte of a key is its kind. Numbers are big-endian.
//
//	'i'                        identity of the folder (JSON, written once)
//	'p'                        tip: oldest and latest ledger sequence, 4 bytes each
//	'e' LedgerKey              LedgerEntry: the state after the latest ledger
//	'l' sequence               ledgerRecord (JSON)
//	't' transaction hash       protocol.TransactionInfo (JSON)
//
// Each ledger is written in one batch, which is on disk before a response contains the ledger.
const (
	keyIdentity = 'i'
	keyTip      = 'p'
	keyEntry    = 'e'
	keyLedger   = 'l'
	keyTx       = 't'

	storeFormat = 1
)

const maxTrimPerClose = 64

type store struct{ db *pebble.DB }

// ledgerRecord is a ledger as the RPC returns it, with the hashes of the applied transactions.
type ledgerRecord struct {
	protocol.LedgerInfo
	Transactions []string `json:"transactions,omitempty"`
}

type tip struct {
	oldest, latest           uint32
	oldestClose, latestClose int64 // Unix seconds
	header                   xdr.LedgerHeaderHistoryEntry
}

type folderIdentity struct {
	Format     int    `json:"format"`
	Passphrase string `json:"passphrase"`
	Payer      string `json:"payer"`
	Issuer     string `json:"issuer"`
	Friendbot  string `json:"friendbot"`
}

func openStore(dir string, log *slog.Logger) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the devnet folder: %w", err)
	}
	cache := pebble.NewCache(16 << 20)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{
		Cache:              cache,
		MemTableSize:       8 << 20,
		MaxOpenFiles:       256,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             pebbleLog{log},
	})
	if err != nil {
		return nil, fmt.Errorf("open the devnet folder %s (one process at a time may have it open): %w",
			dir, err)
	}
	return &store{db}, nil
}

// begun reports whether the folder contains a network, which must be the wanted one.
func (s *store) begun(want folderIdentity) (bool, error) {
	var have folderIdentity
	ok, err := s.read([]byte{keyIdentity}, &have)
	switch {
	case err != nil || !ok:
		return false, err
	case have.Format != want.Format:
		return false, fmt.Errorf("the devnet folder has format %d, but this program uses %d: use "+
			"another folder", have.Format, want.Format)
	case have.Passphrase != want.Passphrase:
		return false, fmt.Errorf("the devnet folder holds network %q, not %q: use its passphrase, or "+
			"another folder", have.Passphrase, want.Passphrase)
	case have != want:
		return false, fmt.Errorf("the devnet folder was made with payer %s, issuer %s and friendbot "+
			"%s, not with these identities: restore its identities file, or use another folder",
			have.Payer, have.Issuer, have.Friendbot)
	}
	return true, nil
}

func (s *store) load() (t tip, state entries, err error) {
	raw, ok, err := s.get([]byte{keyTip})
	if err != nil || !ok || len(raw) != 8 {
		return t, nil, errors.Join(err, errors.New("the devnet folder has no valid tip: use another one"))
	}
	t.oldest, t.latest = binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:])
	oldest, err := s.ledger(t.oldest)
	if err != nil {
		return t, nil, err
	}
	latest, err := s.ledger(t.latest)
	if err != nil {
		return t, nil, err
	}
	t.oldestClose, t.latestClose = oldest.LedgerCloseTime, latest.LedgerCloseTime
	if err := xdr.SafeUnmarshalBase64(latest.LedgerHeader, &t.header); err != nil {
		return t, nil, fmt.Errorf("decode the header of ledger %d: %w", t.latest, err)
	}
	rows, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{keyEntry},
		UpperBound: []byte{keyEntry + 1},
	})
	if err != nil {
		return t, nil, err
	}
	state = entries{}
	for ok := rows.First(); ok; ok = rows.Next() {
		row := new(xdr.LedgerEntry)
		if err := xdr.SafeUnmarshal(rows.Value(), row); err != nil {
			return t, nil, errors.Join(fmt.Errorf("decode a ledger entry: %w", err), rows.Close())
		}
		state[entryKey(rows.Key()[1:])] = row
	}
	return t, state, rows.Close()
}

// write atomically writes a closed ledger and the state after it. It returns the new tip.
func (s *store) write(
	prev tip, l *closedLedger, retention uint32, identity *folderIdentity,
) (tip, error) {
	batch := s.db.NewBatch()
	defer batch.Close()
	var faults []error
	put := func(key []byte, value any) {
		raw, err := json.Marshal(value)
		faults = append(faults, err, batch.Set(key, raw, nil))
	}
	if identity != nil {
		put([]byte{keyIdentity}, identity)
	}
	put(ledgerKey(l.record.Sequence), l.record)
	for _, tx := range l.transactions {
		put(txKey(tx.TransactionHash), tx)
	}
	for key, row := range l.changed {
		name := append([]byte{keyEntry}, key...)
		if row == nil {
			faults = append(faults, batch.Delete(name, nil))
		} else {
			faults = append(faults, batch.Set(name, mustEncode(row), nil))
		}
	}
	next := prev
	next.latest, next.latestClose, next.header = l.record.Sequence, l.record.LedgerCloseTime, l.header
	if next.oldest == 0 {
		next.oldest, next.oldestClose = next.latest, next.latestClose
	}
	faults = append(faults, s.trim(batch, &next, retention),
		batch.Set([]byte{keyTip}, binary.BigEndian.AppendUint32(
			binary.BigEndian.AppendUint32(nil, next.oldest), next.latest), nil))
	if err := errors.Join(faults...); err != nil {
		return tip{}, fmt.Errorf("write ledger %d: %w", next.latest, err)
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		return tip{}, fmt.Errorf("write ledger %d: %w", next.latest, err)
	}
	return next, nil
}

func (s *store) trim(batch *pebble.Batch, t *tip, retention uint32) error {
	for range maxTrimPerClose {
		if t.latest-t.oldest < retention {
			break
		}
		gone, err := s.ledger(t.oldest)
		if err != nil {
			return err
		}
		for _, hash := range gone.Transactions {
			err = errors.Join(err, batch.Delete(txKey(hash), nil))
		}
		if err = errors.Join(err, batch.Delete(ledgerKey(t.oldest), nil)); err != nil {
			return err
		}
		t.oldest++
		t.oldestClose = t.latestClose
		if t.oldest < t.latest { // the latest ledger is in the same batch
			oldest, err := s.ledger(t.oldest)
			if err != nil {
				return err
			}
			t.oldestClose = oldest.LedgerCloseTime
		}
	}
	return nil
}

func (s *store) ledger(sequence uint32) (l ledgerRecord, err error) {
	ok, err := s.read(ledgerKey(sequence), &l)
	if err == nil && !ok {
		err = fmt.Errorf("ledger %d is missing from the devnet folder", sequence)
	}
	return l, err
}

func (s *store) transaction(hash string) (tx protocol.TransactionInfo, ok bool, err error) {
	ok, err = s.read(txKey(hash), &tx)
	return tx, ok, err
}

func ledgerKey(sequence uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{keyLedger}, sequence)
}

func txKey(hash string) []byte {
	raw, _ := hex.DecodeString(hash) // already validated, or our own
	return append([]byte{keyTx}, raw...)
}

func (s *store) read(key []byte, value any) (bool, error) {
	raw, ok, err := s.get(key)
	if err != nil || !ok {
		return false, err
	}
	if err := json.Unmarshal(raw, value); err != nil {
		return false, fmt.Errorf("the devnet folder is damaged: %w", err)
	}
	return true, nil
}

func (s *store) get(key []byte) ([]byte, bool, error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read from the devnet folder: %w", err)
	}
	return append([]byte(nil), value...), true, closer.Close()
}

// pebbleLog logs Pebble's errors. Pebble calls Fatalf if it can't continue, for example because a
// write to its log failed. Fatalf must not return.
type pebbleLog struct{ log *slog.Logger }

func (pebbleLog) Infof(string, ...any) {}

func (p pebbleLog) Errorf(format string, args ...any) {
	p.log.Error("devnet store", "err", fmt.Sprintf(format, args...))
}

func (p pebbleLog) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	panic("devnet store cannot write: " + fmt.Sprintf(format, args...))
}
