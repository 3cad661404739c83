package devnet

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// The folder is one Pebble store. The first byte of a key says what it is; numbers are big-endian.
//
//	'i'                        identity of the folder (JSON, written once)
//	'p'                        tip: oldest and latest ledger sequence, 4 bytes each
//	'e' LedgerKey              LedgerEntry: the state, one row per account and trustline
//	'h' sequence               LedgerHeaderHistoryEntry
//	'l' sequence               LedgerCloseMeta
//	't' transaction hash       txRecord
//	'x' sequence               hashes of the ledger's transactions, for trimming; absent for none
//
// Each ledger is one batch. Ledgers, headers and transactions never change once written.
const (
	keyIdentity = 'i'
	keyTip      = 'p'
	keyEntry    = 'e'
	keyHeader   = 'h'
	keyLedger   = 'l'
	keyTx       = 't'
	keyTxIndex  = 'x'
)

// Folders of format 1 have no offers: the market of the demo asset was not in the ledger.
const (
	storeFormat         = 2
	formatWithoutMarket = 1
)

// maxTrimPerClose bounds the work of one close when the retention was lowered.
const maxTrimPerClose = 64

type store struct {
	db *pebble.DB
}

// tip is what every answer says about the range of ledgers on disk.
type tip struct {
	oldest, latest           uint32
	oldestClose, latestClose int64 // unix seconds
	header                   xdr.LedgerHeaderHistoryEntry
}

// folderIdentity ties a folder to the network it holds.
type folderIdentity struct {
	Format     int    `json:"format"`
	Passphrase string `json:"passphrase"`
	Payer      string `json:"payer"`
	Issuer     string `json:"issuer"`
	Friendbot  string `json:"friendbot"`
}

// openStore opens or creates the folder.
func openStore(dir string, fsync bool, log *slog.Logger) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the devnet folder: %w", err)
	}
	fs := vfs.Default
	if !fsync {
		fs = pageCacheFS{fs}
	}
	cache := pebble.NewCache(16 << 20)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{
		FS:                 fs,
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
	return &store{db: db}, nil
}

func (s *store) Close() error {
	if err := errors.Join(s.db.Flush(), s.db.Close()); err != nil {
		return fmt.Errorf("close the devnet folder: %w", err)
	}
	return nil
}

// checkIdentity returns the format of the network that the folder holds, 0 for none, and
// refuses one that is another.
func (s *store) checkIdentity(want folderIdentity) (format int, err error) {
	raw, ok, err := get(s.db, []byte{keyIdentity})
	if err != nil || !ok {
		return 0, err
	}
	var have folderIdentity
	if err := json.Unmarshal(raw, &have); err != nil {
		return 0, fmt.Errorf("the devnet folder's identity is damaged: %w", err)
	}
	format = have.Format
	if format == formatWithoutMarket {
		have.Format = want.Format
	}
	switch {
	case have.Format != want.Format:
		return 0, fmt.Errorf("the devnet folder has format %d and this program writes %d: use the "+
			"program that made it, or another folder", have.Format, want.Format)
	case have.Passphrase != want.Passphrase:
		return 0, fmt.Errorf("the devnet folder holds network %q, not %q: use its passphrase, or "+
			"another folder", have.Passphrase, want.Passphrase)
	case have != want:
		return 0, fmt.Errorf("the devnet folder was made with payer %s, issuer %s and friendbot %s, "+
			"not with these identities: restore its identities file, or use another folder", have.Payer,
			have.Issuer, have.Friendbot)
	}
	return format, nil
}

// readTip reads the range of ledgers on disk.
func (s *store) readTip() (tip, error) {
	raw, ok, err := get(s.db, []byte{keyTip})
	if err != nil {
		return tip{}, err
	}
	if !ok || len(raw) != 8 {
		return tip{}, errors.New("the devnet folder has no valid tip: it is damaged, use another folder")
	}
	t := tip{oldest: binary.BigEndian.Uint32(raw), latest: binary.BigEndian.Uint32(raw[4:])}
	if t.header, err = readHeader(s.db, t.latest); err != nil {
		return tip{}, err
	}
	oldest, err := readHeader(s.db, t.oldest)
	if err != nil {
		return tip{}, err
	}
	t.latestClose = int64(t.header.Header.ScpValue.CloseTime)
	t.oldestClose = int64(oldest.Header.ScpValue.CloseTime)
	return t, nil
}

func readHeader(r pebble.Reader, sequence uint32) (xdr.LedgerHeaderHistoryEntry, error) {
	var entry xdr.LedgerHeaderHistoryEntry
	raw, ok, err := get(r, sequenceKey(keyHeader, sequence))
	if err != nil {
		return entry, err
	}
	if !ok {
		return entry, fmt.Errorf("the header of ledger %d is missing from the devnet folder", sequence)
	}
	if err := xdr.SafeUnmarshal(raw, &entry); err != nil {
		return entry, fmt.Errorf("decode the header of ledger %d: %w", sequence, err)
	}
	return entry, nil
}

// readEntry reads one row of the state; nil when there is none.
func readEntry(r pebble.Reader, key entryKey) (*xdr.LedgerEntry, error) {
	raw, ok, err := get(r, append([]byte{keyEntry}, key...))
	if err != nil || !ok {
		return nil, err
	}
	entry := new(xdr.LedgerEntry)
	if err := xdr.SafeUnmarshal(raw, entry); err != nil {
		return nil, fmt.Errorf("decode a ledger entry: %w", err)
	}
	return entry, nil
}

// readKeys reads the keys of all rows of one kind, in their order.
func readKeys(r pebble.Reader, kind xdr.LedgerEntryType) (keys []entryKey, err error) {
	rows, err := r.NewIter(&pebble.IterOptions{
		LowerBound: binary.BigEndian.AppendUint32([]byte{keyEntry}, uint32(kind)),
		UpperBound: binary.BigEndian.AppendUint32([]byte{keyEntry}, uint32(kind)+1),
	})
	if err != nil {
		return nil, fmt.Errorf("read from the devnet folder: %w", err)
	}
	for ok := rows.First(); ok; ok = rows.Next() {
		keys = append(keys, entryKey(rows.Key()[1:]))
	}
	if err := rows.Close(); err != nil {
		return nil, fmt.Errorf("read from the devnet folder: %w", err)
	}
	return keys, nil
}

// write puts a closed ledger, the state after it and its transactions on disk, all or nothing,
// and returns the new tip. When it returns, the operating system has everything.
func (s *store) write(
	prev tip, l *closedLedger, retention uint32, identity *folderIdentity,
) (tip, error) {
	batch := s.db.NewBatch()
	defer batch.Close()
	if err := putLedger(batch, l); err != nil {
		return tip{}, err
	}
	if identity != nil {
		raw, err := json.Marshal(identity)
		if err != nil {
			return tip{}, fmt.Errorf("encode the identity of the devnet folder: %w", err)
		}
		_ = batch.Set([]byte{keyIdentity}, raw, nil)
	}
	next := tip{
		oldest:      prev.oldest,
		oldestClose: prev.oldestClose,
		latest:      l.sequence,
		latestClose: l.closeTime,
		header:      l.header,
	}
	if next.oldest == 0 {
		next.oldest, next.oldestClose = l.sequence, l.closeTime
	}
	if err := s.trim(batch, &next, retention); err != nil {
		return tip{}, err
	}
	_ = batch.Set([]byte{keyTip},
		binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, next.oldest), next.latest), nil)
	if err := batch.Commit(pebble.Sync); err != nil {
		return tip{}, fmt.Errorf("write ledger %d: %w", l.sequence, err)
	}
	return next, nil
}

// putLedger fills the batch. Set on an open batch cannot fail.
func putLedger(batch *pebble.Batch, l *closedLedger) error {
	header, err := l.header.MarshalBinary()
	if err != nil {
		return fmt.Errorf("encode the header of ledger %d: %w", l.sequence, err)
	}
	_ = batch.Set(sequenceKey(keyHeader, l.sequence), header, nil)
	_ = batch.Set(sequenceKey(keyLedger, l.sequence), l.meta, nil)
	for key, raw := range l.entries {
		if raw == nil {
			_ = batch.Delete(append([]byte{keyEntry}, key...), nil)
		} else {
			_ = batch.Set(append([]byte{keyEntry}, key...), raw, nil)
		}
	}
	var hashes []byte
	for _, tx := range l.transactions {
		_ = batch.Set(append([]byte{keyTx}, tx.hash[:]...), tx.encode(), nil)
		hashes = append(hashes, tx.hash[:]...)
	}
	if len(hashes) > 0 {
		_ = batch.Set(sequenceKey(keyTxIndex, l.sequence), hashes, nil)
	}
	return nil
}

// trim deletes what is beyond the retention, a bounded number of ledgers at a time.
func (s *store) trim(batch *pebble.Batch, t *tip, retention uint32) error {
	first := t.oldest
	for t.latest-t.oldest >= retention && t.oldest-first < maxTrimPerClose {
		index, ok, err := get(s.db, sequenceKey(keyTxIndex, t.oldest))
		if err != nil {
			return err
		}
		for ok && len(index) >= len(xdr.Hash{}) {
			_ = batch.Delete(append([]byte{keyTx}, index[:len(xdr.Hash{})]...), nil)
			index = index[len(xdr.Hash{}):]
		}
		for _, kind := range []byte{keyHeader, keyLedger, keyTxIndex} {
			_ = batch.Delete(sequenceKey(kind, t.oldest), nil)
		}
		t.oldest++
	}
	switch t.oldest {
	case first:
	case t.latest:
		t.oldestClose = t.latestClose // its header is in this very batch
	default:
		oldest, err := readHeader(s.db, t.oldest)
		if err != nil {
			return err
		}
		t.oldestClose = int64(oldest.Header.ScpValue.CloseTime)
	}
	return nil
}

func sequenceKey(kind byte, sequence uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind}, sequence)
}

// get reads a copy of a value.
func get(r pebble.Reader, key []byte) ([]byte, bool, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read from the devnet folder: %w", err)
	}
	defer closer.Close()
	return append([]byte(nil), value...), true, nil
}

// txRecord is a transaction as getTransaction answers it, kept apart from its ledger so that
// the answer needs no decoding of a thousand others.
type txRecord struct {
	hash                   xdr.Hash // the key, not in the encoding
	ledger                 uint32
	order                  uint32 // from 1, in order of application
	closeTime              int64
	success, feeBump       bool
	envelope, result, meta []byte
}

const txRecordHeadBytes = 4 + 4 + 8 + 1 + 4 + 4

func (t *txRecord) encode() []byte {
	b := make([]byte, 0, txRecordHeadBytes+len(t.envelope)+len(t.result)+len(t.meta))
	b = binary.BigEndian.AppendUint32(b, t.ledger)
	b = binary.BigEndian.AppendUint32(b, t.order)
	b = binary.BigEndian.AppendUint64(b, uint64(t.closeTime))
	var flags byte
	if t.success {
		flags |= 1
	}
	if t.feeBump {
		flags |= 2
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.envelope)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.result)))
	b = append(b, t.envelope...)
	b = append(b, t.result...)
	return append(b, t.meta...)
}

func readTx(r pebble.Reader, hash xdr.Hash) (*txRecord, error) {
	b, ok, err := get(r, append([]byte{keyTx}, hash[:]...))
	if err != nil || !ok {
		return nil, err
	}
	if len(b) < txRecordHeadBytes {
		return nil, fmt.Errorf("the record of transaction %x is damaged", hash)
	}
	t := &txRecord{
		hash:      hash,
		ledger:    binary.BigEndian.Uint32(b),
		order:     binary.BigEndian.Uint32(b[4:]),
		closeTime: int64(binary.BigEndian.Uint64(b[8:])),
		success:   b[16]&1 != 0,
		feeBump:   b[16]&2 != 0,
	}
	envelope := int(binary.BigEndian.Uint32(b[17:]))
	result := int(binary.BigEndian.Uint32(b[21:]))
	b = b[txRecordHeadBytes:]
	if envelope+result > len(b) {
		return nil, fmt.Errorf("the record of transaction %x is damaged", hash)
	}
	t.envelope, t.result, t.meta = b[:envelope], b[envelope:envelope+result], b[envelope+result:]
	return t, nil
}

// pebbleLog passes Pebble's complaints on. Pebble calls Fatalf when it cannot go on (a failed
// write of its log) and must not be returned to.
type pebbleLog struct{ log *slog.Logger }

func (pebbleLog) Infof(string, ...any) {}

func (p pebbleLog) Errorf(format string, args ...any) {
	p.log.Error("devnet store", "err", fmt.Sprintf(format, args...))
}

func (p pebbleLog) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	panic("devnet store cannot write: " + fmt.Sprintf(format, args...))
}
