package devnet

import (
	"encoding/base64"
	"fmt"

	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
)

// exporter writes the network's ledgers to a lake, after they are on the disk here and served.
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

// export writes what the lake lacks. It logs ledgers that were trimmed before they were exported:
// they leave a hole.
func (n *Network) export() error {
	if n.exporter == nil {
		return nil
	}
	next := &n.exporter.next
	if *next < n.tip.oldest {
		if *next != 0 {
			n.cfg.Logger.Error("ledgers were trimmed before they were exported; the lake has a hole",
				"from", *next, "to", n.tip.oldest-1)
		}
		*next = n.tip.oldest
	}
	for ; *next <= n.tip.latest; *next++ {
		l, err := n.store.ledger(*next)
		if err != nil {
			return err
		}
		meta, err := base64.StdEncoding.DecodeString(l.LedgerMetadata)
		if err == nil {
			err = n.exporter.writer.Add(*next, meta)
		}
		if err != nil {
			return fmt.Errorf("export ledger %d: %w", *next, err)
		}
	}
	return nil
}
