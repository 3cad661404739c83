package devnet

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
)

// exporter writes the network's ledgers to a lake, after they are on disk here and served.
type exporter struct {
	writer *lake.Writer
	next   uint32
}

func openExporter(cfg Config) (*exporter, error) {
	if cfg.LakeDir == "" {
		return nil, nil
	}
	w, err := lake.NewWriter(cfg.LakeDir,
		lake.Layout{LedgersPerFile: cfg.LakeLedgersPerFile, FilesPerPartition: 1000}, cfg.Passphrase)
	if err != nil {
		return nil, err
	}
	next, err := w.Next()
	return &exporter{writer: w, next: next}, err
}

// export writes what the lake lacks. Ledgers that were trimmed before they were exported leave
// a hole, which is logged and not hidden.
func (n *Network) export() error {
	if n.exporter == nil {
		return nil
	}
	return n.read(func(t tip, r pebble.Reader) error {
		if n.exporter.next < t.oldest {
			if n.exporter.next != 0 {
				n.cfg.Logger.Error("ledgers were trimmed before they were exported; the lake has a hole",
					"from",
					n.exporter.next, "to", t.oldest-1)
			}
			n.exporter.next = t.oldest
		}
		for ; n.exporter.next <= t.latest; n.exporter.next++ {
			meta, err := readLedger(r, n.exporter.next)
			if err == nil {
				err = n.exporter.writer.Add(n.exporter.next, meta)
			}
			if err != nil {
				return fmt.Errorf("export ledger %d: %w", n.exporter.next, err)
			}
		}
		return nil
	})
}
