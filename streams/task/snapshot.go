package task

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// A snapshot is the state of a task at a journal offset, stored in a topic: chunks of keys and
// values, in key order, and then a manifest with their count and checksum. The snapshots of a
// partition follow each other, and records before the previous complete one are no longer needed.
// Each record is part of a turn's transaction, so only the owner of the partition can write it.
//
//	key:     the snapshot's id
//	headers: chunk, with its number, or manifest, with the version of its format
//	value:   zstd of length, key, length, value and so on; JSON for a manifest
const (
	// HeaderChunk and HeaderManifest mark the two kinds of records.
	HeaderChunk    = "chunk"
	HeaderManifest = "manifest"
	manifestForm   = "1"
	// defaultChunkBytes takes about a millisecond to write, so it does not delay a turn.
	defaultChunkBytes = 384 << 10
	// compressesTo is the expected compression ratio, which sizes the output buffer.
	compressesTo = 4
	// mostChunkBytes bounds a decompressed chunk, and so the largest value.
	mostChunkBytes = 64 << 20
)

type manifest struct {
	ID       string `json:"id"`
	Identity string `json:"identity"` // of the state and its format
	Next     int64  `json:"next"`     // journal offset up to which it is folded
	Chunks   int    `json:"chunks"`
	Keys     int64  `json:"keys"`
	Bytes    int64  `json:"bytes"` // of keys and values
	Sum      uint32 `json:"sum"`   // of all uncompressed chunks
}

func onlyOfStore(key []byte) bool {
	return store.IsIdentity(key) || bytes.Equal(key, snapshotsKey) ||
		bytes.Equal(key, grownKey)
}

type snapshotWriter struct {
	cfg      SnapshotConfig
	view     store.View
	from     []byte
	manifest manifest
	encoder  *zstd.Encoder
	buffer   []byte // for uncompressed chunks
}

// newSnapshotWriter uses a view of the committed state, which later changes do not affect.
func newSnapshotWriter(s *store.Store, cfg SnapshotConfig, m manifest) (*snapshotWriter, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("streams: compressing a snapshot: %w", err)
	}
	return &snapshotWriter{
		cfg:      cfg,
		view:     s.View(),
		from:     []byte{},
		manifest: m,
		encoder:  encoder,
	}, nil
}

func (w *snapshotWriter) close() error {
	if err := errors.Join(w.encoder.Close(), w.view.Close()); err != nil {
		return fmt.Errorf("streams: closing a snapshot: %w", err)
	}
	return nil
}

// next returns the next record, and whether it is the manifest, which always comes last.
func (w *snapshotWriter) next() (r kafka.Record, last bool, err error) {
	chunk, err := w.chunk()
	if err != nil {
		return kafka.Record{}, false, err
	}
	m := &w.manifest
	if len(chunk) > 0 {
		m.Sum = crc32.Update(m.Sum, castagnoli, chunk)
		compressed := w.encoder.EncodeAll(chunk, make([]byte, 0, len(chunk)/compressesTo))
		r = w.record(HeaderChunk, strconv.Itoa(m.Chunks), compressed)
		m.Chunks++
		return r, false, nil
	}
	value, err := json.Marshal(m)
	if err != nil {
		return kafka.Record{}, false, fmt.Errorf("streams: writing the manifest of a snapshot: %w", err)
	}
	return w.record(HeaderManifest, manifestForm, value), true, nil
}

func (w *snapshotWriter) record(header, text string, value []byte) kafka.Record {
	return kafka.Record{
		Topic:   w.cfg.Topic,
		Key:     []byte(w.manifest.ID),
		Value:   value,
		Headers: []kafka.Header{{Key: header, Value: []byte(text)}},
	}
}

// chunk returns the next keys and values, or nothing at the end. It is valid until the next call.
func (w *snapshotWriter) chunk() (chunk []byte, err error) {
	most := cmp.Or(w.cfg.ChunkBytes, defaultChunkBytes)
	chunk = w.buffer[:0]
	defer func() { w.buffer = chunk }()
	err = w.view.Scan(w.from, []byte{0xff, 0xff, 0xff, 0xff}, func(key, value []byte) (bool, error) {
		if size := len(chunk) + len(key) + len(value); len(chunk) > 0 && size > most {
			w.from = bytes.Clone(key)
			return false, nil
		}
		w.from = append(append(w.from[:0], key...), 0)
		if onlyOfStore(key) {
			return true, nil
		}
		w.manifest.Keys++
		w.manifest.Bytes += int64(len(key) + len(value))
		chunk = append(binary.AppendUvarint(chunk, uint64(len(key))), key...)
		chunk = append(binary.AppendUvarint(chunk, uint64(len(value))), value...)
		return true, nil
	})
	return chunk, err
}

// EachSnapshotRecord calls take for each record of a snapshot of a partition's state, in append
// order.
func EachSnapshotRecord(
	s *store.Store, cfg SnapshotConfig, journal string, partition int32, take func(kafka.Record) error,
) error {
	next, err := s.Checkpoint(journal, partition)
	if err != nil {
		return err
	}
	var id [8]byte
	rand.Read(id[:])
	w, err := newSnapshotWriter(s, cfg, manifest{
		ID:       fmt.Sprintf("%d.copy.%s", next, hex.EncodeToString(id[:])),
		Identity: cfg.identity(),
		Next:     next,
	})
	if err != nil {
		return err
	}
	for last := false; !last && err == nil; {
		var r kafka.Record
		if r, last, err = w.next(); err == nil {
			r.Partition = partition
			err = take(r)
		}
	}
	if closed := w.close(); err == nil {
		err = closed
	}
	return err
}

type foundSnapshot struct {
	manifest
	first, last int64       // offsets of its first chunk and its manifest
	convert     *Conversion // nil in the current format
}

type snapshotIndex struct {
	first map[string]int64 // offset of the first chunk, by id
	found []foundSnapshot  // those with a manifest, oldest first
}

func (x *snapshotIndex) add(r kafka.Record) {
	if id := string(r.Key); r.Header(HeaderChunk) == "0" {
		x.first[id] = r.Offset
	}
	if r.Header(HeaderManifest) == "" {
		return
	}
	f := foundSnapshot{last: r.Offset}
	if r.Header(HeaderManifest) == manifestForm {
		_ = json.Unmarshal(r.Value, &f.manifest) // a damaged manifest has no id, or a foreign identity
	}
	if first, known := x.first[f.ID]; known {
		f.first = first
	}
	x.found = append(x.found, f)
}

type unfit struct {
	foreign, tooOld int
	newest          string // identity of the newest foreign one
}

// fitting returns the snapshots that a journal with this first offset can complete, newest first.
func (x *snapshotIndex) fitting(
	cfg SnapshotConfig, journalStart int64,
) (list []foundSnapshot, others unfit) {
	for _, f := range slices.Backward(x.found) {
		_, begun := x.first[f.ID]
		convert, reads := cfg.reads(f.Identity)
		switch {
		case !reads || !begun:
			if others.foreign++; others.newest == "" && !reads {
				others.newest = f.Identity
			}
		case f.Next < journalStart:
			others.tooOld++
		default:
			f.convert = convert
			list = append(list, f)
		}
	}
	return list, others
}

var errTornSnapshot = errors.New("a part of it is missing or damaged")

type snapshotReader struct {
	of      foundSnapshot
	store   *store.Store
	decoder *zstd.Decoder
	buffer  []byte // for decompressed chunks
	chunks  int
	sum     uint32
}

func newSnapshotReader(of foundSnapshot, store *store.Store) (*snapshotReader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(mostChunkBytes))
	if err != nil {
		return nil, fmt.Errorf("streams: reading a snapshot: %w", err)
	}
	return &snapshotReader{of: of, store: store, decoder: decoder}, nil
}

// take reads a record, and reports whether it completes the snapshot.
func (l *snapshotReader) take(r kafka.Record) (whole bool, err error) {
	chunk := r.Header(HeaderChunk)
	switch {
	case string(r.Key) != l.of.ID:
		return false, nil
	case chunk == strconv.Itoa(l.chunks):
		l.chunks++
		return false, l.load(r.Value)
	case chunk == "" && l.chunks == l.of.Chunks && l.sum == l.of.Sum:
		return true, nil
	}
	return false, errTornSnapshot
}

func (l *snapshotReader) load(compressed []byte) error {
	chunk, err := l.decoder.DecodeAll(compressed, l.buffer[:0])
	if err != nil {
		return errTornSnapshot
	}
	l.buffer = chunk
	l.sum = crc32.Update(l.sum, castagnoli, chunk)
	return l.store.Load(func(set func(key, value []byte) error) error {
		for len(chunk) > 0 {
			var key, value []byte
			if key, chunk, err = cutBytes(chunk); err == nil {
				value, chunk, err = cutBytes(chunk)
			}
			if err == nil && !onlyOfStore(key) {
				err = l.put(set, key, value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *snapshotReader) put(set func(key, value []byte) error, key, value []byte) error {
	if l.of.convert == nil || l.of.convert.Entry == nil {
		return set(key, value)
	}
	if err := l.of.convert.Entry(key, value, set); err != nil {
		return fmt.Errorf("streams: converting the entry %x of a snapshot of another format: %w", key,
			err)
	}
	return nil
}

func cutBytes(from []byte) (data, rest []byte, err error) {
	n, size := binary.Uvarint(from)
	if size <= 0 || n > uint64(len(from)-size) {
		return nil, nil, errTornSnapshot
	}
	end := size + int(n) // #nosec G115 -- at most len(from)
	return from[size:end], from[end:], nil
}
