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

// Identities are the secret keys of the accounts that exist from the first ledger on. The root
// account is not among them: as on every Stellar test network, its key follows from the
// passphrase and is no secret.
type Identities struct {
	PayerSeed     string `json:"payerSeed"`     // holds lumens and the demo asset, to pay with
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

// LoadOrCreateIdentities reads the identities from a JSON file, or creates the file with new ones
// (mode 0600, complete or not at all). Only the process that holds the data folder may create it.
func LoadOrCreateIdentities(path string) (id Identities, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createIdentities(path)
	}
	if err != nil {
		return id, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return id, fmt.Errorf("identities file %s has mode %04o and holds secret keys: run chmod 600 "+
			"on it", path, mode)
	}
	raw, err := os.ReadFile(path) // #nosec G304 -- in the data folder
	if err != nil {
		return id, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&id); err != nil {
		return Identities{}, fmt.Errorf("identities file %s is not the JSON object it should be (%w): "+
			"restore it, or delete it together with the ledger folder", path, err)
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
	temp, err := os.CreateTemp(filepath.Dir(path), ".identities-*") // mode 0600
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

// PayerAddress is the payer's public address; "" if its seed is not valid.
func (id Identities) PayerAddress() string { return addressOf(id.PayerSeed) }

// IssuerAddress is the issuer's public address; "" if its seed is not valid.
func (id Identities) IssuerAddress() string { return addressOf(id.IssuerSeed) }

// DemoAsset is the demo asset as CODE:ISSUER.
func (id Identities) DemoAsset() string { return DemoAssetCode + ":" + id.IssuerAddress() }

// String names the accounts and never their seeds, so that printing a configuration leaks nothing.
func (id Identities) String() string {
	return fmt.Sprintf("{payer %s, issuer %s, friendbot %s}", id.PayerAddress(), id.IssuerAddress(),
		addressOf(id.FriendbotSeed))
}

// GoString keeps the seeds out of %#v too.
func (id Identities) GoString() string { return "devnet.Identities" + id.String() }

// LogValue keeps them out of structured logs.
func (id Identities) LogValue() slog.Value { return slog.StringValue(id.String()) }

// validate names a faulty seed by its field and never by its value.
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
