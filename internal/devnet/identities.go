package devnet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/stellar/go-stellar-sdk/keypair"
)

// Identities are the secret keys of the accounts that exist from the first ledger on, except the
// root account's, which is derived from the passphrase and not secret, as on all test networks.
type Identities struct {
	PayerSeed     string `json:"payerSeed"`     // owns lumens and the demo asset for paying
	IssuerSeed    string `json:"issuerSeed"`    // issues the demo asset
	FriendbotSeed string `json:"friendbotSeed"` // funds new accounts
}

// NewIdentities creates three random key pairs.
func NewIdentities() (id Identities, err error) {
	for _, seed := range []*string{&id.PayerSeed, &id.IssuerSeed, &id.FriendbotSeed} {
		pair, err := keypair.Random()
		if err != nil {
			return Identities{}, fmt.Errorf("create a key pair of the development network: %w", err)
		}
		*seed = pair.Seed()
	}
	return id, nil
}

// LoadOrCreateIdentities reads the identities from a JSON file. If it doesn't exist, it is created
// atomically with new identities and mode 0600. The caller must hold the lock on the data folder.
func LoadOrCreateIdentities(path string) (id Identities, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createIdentities(path)
	}
	if err != nil {
		return id, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return id, fmt.Errorf("identities file %s contains secret keys but has mode %04o: run chmod 600 "+
			"on it", path, mode)
	}
	raw, err := os.ReadFile(path) // #nosec G304 -- in the data folder
	if err != nil {
		return id, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&id); err != nil {
		return Identities{}, fmt.Errorf("identities file %s is invalid (%w): restore it, or delete it "+
			"together with the ledger folder", path, err)
	}
	if err := id.validate(); err != nil {
		return Identities{}, fmt.Errorf("identities file %s: %w", path, err)
	}
	return id, nil
}

func createIdentities(path string) (Identities, error) {
	id, err := NewIdentities()
	if err != nil {
		return id, err
	}
	raw, err := json.MarshalIndent(id, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return Identities{}, err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".identities-*") // with mode 0600
	if err != nil {
		return Identities{}, err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(append(raw, '\n'))
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return Identities{}, fmt.Errorf("write %s: %w", path, err)
	}
	return id, os.Rename(temp.Name(), path)
}

// PayerAddress returns the payer's public address, or "" if its seed is invalid.
func (id Identities) PayerAddress() string { return addressOf(id.PayerSeed) }

// IssuerAddress returns the issuer's public address, or "" if its seed is invalid.
func (id Identities) IssuerAddress() string { return addressOf(id.IssuerSeed) }

// DemoAsset returns the demo asset as CODE:ISSUER.
func (id Identities) DemoAsset() string { return DemoAssetCode + ":" + id.IssuerAddress() }

// String returns the addresses, never the seeds, so that a printed configuration has no secrets.
func (id Identities) String() string {
	return fmt.Sprintf("{payer %s, issuer %s, friendbot %s}", id.PayerAddress(), id.IssuerAddress(),
		addressOf(id.FriendbotSeed))
}

// GoString is like String, for the verb %#v.
func (id Identities) GoString() string { return "devnet.Identities" + id.String() }

// LogValue is like String, for structured logs.
func (id Identities) LogValue() slog.Value { return slog.StringValue(id.String()) }

// validate reports invalid seeds by the names of their fields. Errors don't contain seeds.
func (id Identities) validate() error {
	var faults []error
	for field, seed := range map[string]string{
		"payerSeed": id.PayerSeed, "issuerSeed": id.IssuerSeed, "friendbotSeed": id.FriendbotSeed,
	} {
		if addressOf(seed) == "" {
			faults = append(faults, fmt.Errorf("identity %s is not a Stellar secret key", field))
		}
	}
	if id.PayerSeed == id.IssuerSeed || id.PayerSeed == id.FriendbotSeed ||
		id.IssuerSeed == id.FriendbotSeed {
		faults = append(faults,
			errors.New("payerSeed, issuerSeed and friendbotSeed must be different keys"))
	}
	return errors.Join(faults...)
}

func addressOf(seed string) string {
	pair, err := keypair.ParseFull(seed)
	if err != nil {
		return ""
	}
	return pair.Address()
}
