package lake

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// Writer writes a lake to a folder like Galexie. It is not safe for concurrent use.
type Writer struct {
	dir     string
	layout  Layout
	encoder *zstd.Encoder
	first   uint32 // first ledger of the current file
	batch   [][]byte
}

// NewWriter creates a lake, or continues one with the same layout and network.
func NewWriter(dir string, layout Layout, passphrase string) (*Writer, error) {
	raw, err := json.Marshal(manifest{
		NetworkPassphrase: passphrase,
		Version:           manifestVersion,
		Compression:       compressionZstd,
		LedgersPerFile:    layout.LedgersPerFile,
		FilesPerPartition: layout.FilesPerPartition,
	})
	var encoder *zstd.Encoder
	if err == nil {
		encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	}
	if err = errors.Join(err, layout.check(), os.MkdirAll(dir, 0o750)); err == nil {
		err = os.WriteFile(filepath.Join(dir, manifestName), raw, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("lake: creating a lake in %s: %w", dir, err)
	}
	return &Writer{dir: dir, layout: layout, encoder: encoder}, nil
}

// Add adds the next ledger. It writes a file when the file's last ledger is added. If the first
// ledgers of a file were not added, the file doesn't contain them.
func (w *Writer) Add(sequence uint32, ledger []byte) error {
	first, last := w.layout.rangeOf(sequence)
	switch {
	case len(w.batch) == 0:
		w.first = sequence
	case sequence != w.first+uint32(len(w.batch)):
		return fmt.Errorf("lake: ledger %d was added after %d", sequence, w.first+uint32(len(w.batch))-1)
	}
	if w.batch = append(w.batch, ledger); sequence < last {
		return nil
	}
	raw := binary.BigEndian.AppendUint32(nil, w.first)
	raw = binary.BigEndian.AppendUint32(raw, last)
	raw = binary.BigEndian.AppendUint32(raw, uint32(len(w.batch)))
	for _, one := range w.batch {
		raw = append(raw, one...)
	}
	w.batch = nil
	return w.write(w.layout.Key(first), w.encoder.EncodeAll(raw, nil))
}

// write renames a complete file, so that readers never see a part of it.
func (w *Writer) write(key string, raw []byte) error {
	path := filepath.Join(w.dir, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("lake: %w", err)
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(temporary, raw, 0o600); err != nil {
		return fmt.Errorf("lake: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("lake: %w", err)
	}
	return nil
}
