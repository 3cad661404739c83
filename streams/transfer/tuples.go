package transfer

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// A file is zstd-compressed tuples. A tuple is the number of its fields, followed by the length and
// content of each. All numbers are unsigned varints.

// mostFieldBytes bounds a field, and mostFields a tuple. Records and states have fewer.
const (
	mostFieldBytes = 64 << 20
	mostFields     = 1 << 10
)

// file describes a written file, as part of a backup's manifest.
type file struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Tuples int64  `json:"tuples"`
}

// tupleWriter writes a file.
type tupleWriter struct {
	file
	out  *os.File
	sum  hash.Hash
	zstd *zstd.Encoder
	buf  []byte
}

func newTupleWriter(path, name string) (*tupleWriter, error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- asked for
	if err != nil {
		return nil, fmt.Errorf("transfer: %w", err)
	}
	w := &tupleWriter{file: file{Name: name}, out: out, sum: sha256.New()}
	w.zstd, err = zstd.NewWriter(io.MultiWriter(out, w.sum, counter{&w.Bytes}),
		zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("transfer: %w", err), out.Close())
	}
	return w, nil
}

// counter counts written bytes.
type counter struct{ bytes *int64 }

func (c counter) Write(p []byte) (int, error) {
	*c.bytes += int64(len(p))
	return len(p), nil
}

func (w *tupleWriter) write(fields ...[]byte) error {
	w.buf = binary.AppendUvarint(w.buf[:0], uint64(len(fields)))
	for _, f := range fields {
		w.buf = append(binary.AppendUvarint(w.buf, uint64(len(f))), f...)
	}
	w.Tuples++
	if _, err := w.zstd.Write(w.buf); err != nil {
		return fmt.Errorf("transfer: writing %s: %w", w.Name, err)
	}
	return nil
}

func (w *tupleWriter) end() (file, error) {
	err := errors.Join(w.zstd.Close(), w.out.Sync(), w.out.Close())
	if err != nil {
		return file{}, fmt.Errorf("transfer: writing %s: %w", w.Name, err)
	}
	w.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	return w.file, nil
}

// abandon closes the file after an error. After end it does nothing.
func (w *tupleWriter) abandon() { _, _ = w.zstd.Close(), w.out.Close() }

// readTuples calls take for each tuple of a file. The fields are valid only during the call.
func readTuples(path string, take func(fields [][]byte) error) error {
	in, err := os.Open(path) // #nosec G304 -- asked for
	if err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	defer in.Close()
	decoder, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("transfer: reading %s: %w", path, err)
	}
	defer decoder.Close()
	r := tupleReader{in: bufio.NewReaderSize(decoder, 1<<16)}
	for {
		fields, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("transfer: reading %s: it is damaged: %w", path, err)
		}
		if err := take(fields); err != nil {
			return err
		}
	}
}

type tupleReader struct {
	in     *bufio.Reader
	fields [][]byte
}

var errDamaged = errors.New("a length is out of bounds")

// next reads a tuple; io.EOF after the last one.
func (r *tupleReader) next() ([][]byte, error) {
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return nil, err
	}
	if n > mostFields {
		return nil, errDamaged
	}
	r.fields = r.fields[:0]
	for range n {
		size, err := binary.ReadUvarint(r.in)
		if err == nil && size > mostFieldBytes {
			err = errDamaged
		}
		if err != nil {
			return nil, unexpected(err)
		}
		field := make([]byte, size)
		if _, err := io.ReadFull(r.in, field); err != nil {
			return nil, unexpected(err)
		}
		r.fields = append(r.fields, field)
	}
	return r.fields, nil
}

// unexpected returns io.ErrUnexpectedEOF if a tuple is cut off.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func checkFile(path string, f file) error {
	in, err := os.Open(path) // #nosec G304 -- asked for
	if err != nil {
		return fmt.Errorf("transfer: a file of the backup is missing: %w", err)
	}
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, in)
	if err != nil {
		return fmt.Errorf("transfer: reading %s: %w", path, err)
	}
	if have := hex.EncodeToString(sum.Sum(nil)); size != f.Bytes || have != f.SHA256 {
		return fmt.Errorf("transfer: %s is damaged: it has %d bytes with the checksum %.16s…, and the "+
			"manifest says %d and %.16s…: take another copy of the backup", path, size, have, f.Bytes,
			f.SHA256)
	}
	return nil
}
