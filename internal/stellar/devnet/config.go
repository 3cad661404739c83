package devnet

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/stellar/go-stellar-sdk/xdr"
)

const (
	// DefaultPassphrase names the network. Its hash is the network id that every signature covers,
	// so a transaction signed for the development network is worthless elsewhere.
	DefaultPassphrase = "Lumenhook Devnet ; November 2026" // #nosec G101 -- a network's public name

	// ProtocolVersion is the Stellar protocol the ledgers are written in: the first with
	// LedgerCloseMetaV2.
	ProtocolVersion = 23

	// BaseFeeStroops is the fee of one operation.
	BaseFeeStroops = 100

	// BaseReserveStroops is what one ledger entry locks up.
	BaseReserveStroops = 5_000_000

	// DemoAssetCode is the code of the asset that the issuer issues and the payer holds from the
	// first ledger.
	DemoAssetCode = "USD"

	stroopsPerUnit = 10_000_000

	defaultCloseInterval    = time.Second
	minCloseInterval        = 50 * time.Millisecond
	maxCloseInterval        = time.Hour
	defaultListen           = "127.0.0.1:8000"
	defaultRetentionLedgers = 120_960
	// seven days of five-second ledgers, what a Stellar RPC server keeps
	defaultMaxPendingOperations = 10_000
)

// Config says how a development network runs. Dir and Identities are required; a zero in any
// other field means its default.
type Config struct {
	// Dir is the folder of the ledger, created when missing. One process at a time may have it open.
	Dir string

	// Identities are the accounts that exist from the first ledger. A folder belongs to the
	// identities and the passphrase it was created with.
	Identities Identities

	// Passphrase names the network. Default DefaultPassphrase.
	Passphrase string

	// Listen is the TCP address of the HTTP server; port 0 picks a free one. Default 127.0.0.1:8000.
	Listen string

	// Hosts are further names by which the HTTP server is asked, Origins the web pages that may
	// use it; see internal/webguard. Without them no page can do anything here but one of the
	// server's own.
	Hosts, Origins []string

	// CloseInterval is the time between two ledgers, from 50 ms to 1 h. Default 1 s.
	CloseInterval time.Duration

	// RetentionLedgers is how many ledgers are kept; older ones are trimmed. Default 120960.
	RetentionLedgers uint32

	// MaxPendingOperations bounds the operations that wait for the next ledger, and so the size of
	// a ledger; beyond it sendTransaction answers TRY_AGAIN_LATER. Default 10000.
	MaxPendingOperations int

	// Sync adds an fsync to every ledger. Without it a ledger survives the death of the process,
	// since it was written to the operating system before it is served, but not that of the
	// machine.
	Sync bool

	// LakeDir is a folder to export the ledgers to, as Galexie would; none when empty. Each file holds
	// LakeLedgersPerFile of them, by default 1.
	LakeDir            string
	LakeLedgersPerFile uint32

	// Faults are answers to spoil, for tests of what follows the network.
	Faults []Fault

	// Hold keeps ledgers from being closed while it returns an error, as on a disk that is full;
	// transactions wait meanwhile. Default: never.
	Hold func() error

	// Logger takes what an operator should see. Default: nothing is logged.
	Logger *slog.Logger

	// Clock is the wall clock of close times and time bounds. Default time.Now.
	Clock func() time.Time
}

// withDefaults fills in the defaults and reports every faulty field at once.
func (c Config) withDefaults() (Config, error) {
	setDefault(&c.Passphrase, DefaultPassphrase)
	setDefault(&c.Listen, defaultListen)
	setDefault(&c.CloseInterval, defaultCloseInterval)
	setDefault(&c.RetentionLedgers, defaultRetentionLedgers)
	setDefault(&c.LakeLedgersPerFile, 1)
	setDefault(&c.MaxPendingOperations, defaultMaxPendingOperations)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Hold == nil {
		c.Hold = func() error { return nil }
	}
	return c, c.faults()
}

func (c Config) faults() error {
	var faults []error
	if c.Dir == "" {
		faults = append(faults, errors.New("no Dir given: name the folder that holds the ledger"))
	}
	if strings.TrimSpace(c.Passphrase) == "" {
		faults = append(faults,
			errors.New("blank Passphrase: name the network, or leave the field out for the default"))
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		faults = append(faults,
			fmt.Errorf("address %q of Listen is not host:port (%w): use for example 127.0.0.1:8000 or "+
				"127.0.0.1:0", c.Listen, err))
	}
	if c.CloseInterval < minCloseInterval || c.CloseInterval > maxCloseInterval {
		faults = append(faults,
			fmt.Errorf("CloseInterval %v is outside %v to %v", c.CloseInterval, minCloseInterval,
				maxCloseInterval))
	}
	if c.MaxPendingOperations < 1 {
		faults = append(faults,
			fmt.Errorf("MaxPendingOperations %d must be at least 1", c.MaxPendingOperations))
	}
	if len(c.Faults) > faultsMax {
		faults = append(faults, fmt.Errorf("%d Faults are more than %d", len(c.Faults), faultsMax))
	}
	if err := c.Identities.validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (c Config) rules() rules {
	return rules{
		passphrase: c.Passphrase,
		demo:       xdr.MustNewCreditAsset(DemoAssetCode, c.Identities.IssuerAddress()),
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
