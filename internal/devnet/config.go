package devnet

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

const (
	// DefaultPassphrase is the default passphrase. Every signature covers its hash, so transactions
	// signed for the devnet are invalid on other networks.
	DefaultPassphrase = "Lumenhook Devnet ; November 2026" // #nosec G101 -- a network's public name

	// ProtocolVersion is the Stellar protocol of the ledgers, the first one with LedgerCloseMetaV2.
	ProtocolVersion = 23

	// BaseFeeStroops is the fee per operation.
	BaseFeeStroops = 100

	// BaseReserveStroops is the reserve per ledger entry.
	BaseReserveStroops = 5_000_000

	// DemoAssetCode is the code of an asset that the payer owns from the first ledger on.
	DemoAssetCode = "USD"

	stroopsPerUnit   = 10_000_000
	minCloseInterval = 50 * time.Millisecond
	maxCloseInterval = time.Hour
)

// Config configures a devnet. Dir and Identities are required. All other fields have defaults.
type Config struct {
	// Dir is the folder of the network, which is created if missing. Only one process can open it.
	Dir string

	// Identities are the accounts that exist from the first ledger on. A folder can only be opened
	// with the identities and the passphrase with which it was created.
	Identities Identities

	// Passphrase is the network passphrase. Default: DefaultPassphrase.
	Passphrase string

	// Listen is the TCP address of the server, with port 0 for a free one. Default: 127.0.0.1:8000.
	Listen string

	// Hosts are additional names of the HTTP server. Origins are the origins whose web pages may use
	// it; see internal/ingress. Default: none.
	Hosts, Origins []string

	// CloseInterval is the time between ledgers, from 50 ms to 1 h. Default: 1 s.
	CloseInterval time.Duration

	// RetentionLedgers is the number of ledgers to keep. Default: 120,960, which is seven days of
	// five-second ledgers, as on a Stellar RPC server.
	RetentionLedgers uint32

	// MaxPendingOperations is the maximum number of operations in the next ledger. If it is reached,
	// sendTransaction returns TRY_AGAIN_LATER. Default: 10,000.
	MaxPendingOperations int

	// Faults are responses to spoil, for testing programs that follow the network.
	Faults []Fault

	// Hold prevents ledgers from closing while it returns an error, for example because the disk is
	// full. Transactions wait in the meantime. Default: never.
	Hold func() error

	// Logger receives messages for operators. Default: no logs.
	Logger *slog.Logger

	// Clock is used for close times and time bounds. Default: time.Now.
	Clock func() time.Time
}

// withDefaults sets the defaults. Its error reports all invalid fields.
func (c Config) withDefaults() (Config, error) {
	setDefault(&c.Passphrase, DefaultPassphrase)
	setDefault(&c.Listen, "127.0.0.1:8000")
	setDefault(&c.CloseInterval, time.Second)
	setDefault(&c.RetentionLedgers, 120_960)
	setDefault(&c.MaxPendingOperations, 10_000)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Hold == nil {
		c.Hold = func() error { return nil }
	}
	var faults []error
	if c.Dir == "" {
		faults = append(faults, errors.New("the field Dir is empty: set the folder of the network"))
	}
	if strings.TrimSpace(c.Passphrase) == "" {
		faults = append(faults, errors.New("Passphrase is blank: set the network passphrase"))
	}
	if c.CloseInterval < minCloseInterval || c.CloseInterval > maxCloseInterval {
		faults = append(faults, fmt.Errorf("CloseInterval is %v: must be from %v to %v", c.CloseInterval,
			minCloseInterval, maxCloseInterval))
	}
	return c, errors.Join(append(faults, c.Identities.validate())...)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
