package devnet

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

const (
	// DefaultPassphrase names the network. Every signature covers its hash, so a transaction that
	// is signed for the development network is worthless elsewhere.
	DefaultPassphrase = "Lumenhook Devnet ; November 2026" // #nosec G101 -- a network's public name

	// ProtocolVersion is the Stellar protocol of the ledgers: the first with LedgerCloseMetaV2.
	ProtocolVersion = 23

	// BaseFeeStroops is the fee of one operation.
	BaseFeeStroops = 100

	// BaseReserveStroops is the reserve of one ledger entry.
	BaseReserveStroops = 5_000_000

	// DemoAssetCode is the code of the asset that the payer holds from the first ledger.
	DemoAssetCode = "USD"

	stroopsPerUnit   = 10_000_000
	minCloseInterval = 50 * time.Millisecond
	maxCloseInterval = time.Hour
)

// Config says how a development network runs. Dir and Identities are required; the zero of any
// other field means its default.
type Config struct {
	// Dir is the folder of the ledger, created if missing. One process at a time may open it.
	Dir string

	// Identities are the accounts that exist from the first ledger. A folder belongs to the
	// identities and the passphrase it was created with.
	Identities Identities

	// Passphrase names the network. Default DefaultPassphrase.
	Passphrase string

	// Listen is the TCP address of the HTTP server; port 0 picks a free one. Default 127.0.0.1:8000.
	Listen string

	// Hosts are further names of the HTTP server, Origins the web pages that may use it: see
	// internal/ingress. By default no page of another origin may.
	Hosts, Origins []string

	// CloseInterval is the time between two ledgers, from 50 ms to 1 h. Default 1 s.
	CloseInterval time.Duration

	// RetentionLedgers is how many ledgers are kept; older ones are trimmed. The default is 120,960:
	// seven days of five-second ledgers, which a Stellar RPC server keeps.
	RetentionLedgers uint32

	// MaxPendingOperations bounds the operations of the next ledger; beyond it sendTransaction
	// answers TRY_AGAIN_LATER. Default 10,000.
	MaxPendingOperations int

	// Faults are answers to spoil, for tests of programs that follow the network.
	Faults []Fault

	// Hold prevents ledgers from closing while it returns an error, as on a full disk. Transactions
	// wait meanwhile. Default: never.
	Hold func() error

	// Logger takes what an operator should see. Default: nothing is logged.
	Logger *slog.Logger

	// Clock is the wall clock of close times and time bounds. Default time.Now.
	Clock func() time.Time
}

// withDefaults fills in the defaults and reports every faulty field at once.
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
		faults = append(faults, errors.New("no Dir: name the folder of the ledger"))
	}
	if strings.TrimSpace(c.Passphrase) == "" {
		faults = append(faults, errors.New("Passphrase is blank: name the network"))
	}
	if c.CloseInterval < minCloseInterval || c.CloseInterval > maxCloseInterval {
		faults = append(faults, fmt.Errorf("CloseInterval %v is outside %v to %v", c.CloseInterval,
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
