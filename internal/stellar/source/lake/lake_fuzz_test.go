package lake_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
)

var fuzzLayout = lake.Layout{LedgersPerFile: 8, FilesPerPartition: 1}

// drawer is a store with one file and a manifest.
type drawer struct {
	key string
	raw []byte
}

func (d drawer) Get(_ context.Context, key string, _ int64) ([]byte, error) {
	switch key {
	case d.key:
		return d.raw, nil
	case ".config.json":
		return fmt.Appendf(nil, `{"compression":"zstd","ledgersPerBatch":%d,"batchesPerPartition":%d}`,
			fuzzLayout.LedgersPerFile, fuzzLayout.FilesPerPartition), nil
	}
	return nil, fs.ErrNotExist
}

func (d drawer) First(context.Context, int) ([]string, error) { return []string{d.key}, nil }

func (d drawer) String() string { return "drawer" }

// FuzzFile checks that a file of a lake, whatever it contains and compressed or not, yields
// either the due ledgers, each with matching hashes, or none.
func FuzzFile(f *testing.F) {
	const due = 64
	key := fuzzLayout.Key(due)
	packed, err := os.ReadFile(filepath.Join(fill(f, fuzzLayout, due, due+7), key))
	if err != nil {
		f.Fatal(err)
	}
	plain, err := decompressed(packed)
	if err != nil {
		f.Fatal(err)
	}
	for _, cut := range []int{0, 1, len(plain) / 8, len(plain) / 2} {
		f.Add(plain[:len(plain)-cut], true)
		f.Add(packed[:len(packed)-min(cut, len(packed))], false)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte, compress bool) {
		if compress {
			raw = encoder.EncodeAll(raw, nil)
		}
		s, err := lake.New(lake.Config{
			Store:      drawer{key: key, raw: raw},
			Passphrase: passphrase,
		})
		if err != nil {
			t.Fatal(err)
		}
		page, err := s.Look(t.Context(), due)
		if err != nil && len(page) > 0 {
			t.Errorf("%d ledgers beside the error %v", len(page), err)
		}
		for i, got := range page {
			_, err := ledger.Verify(ledger.Raw{XDR: got.XDR}, passphrase)
			if got.Sequence != uint32(due+i) || err != nil {
				t.Errorf("ledger %d where %d is due: %v", got.Sequence, due+i, err)
			}
		}
	})
}
