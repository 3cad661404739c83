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
// account is not among them: as on every Stellar network made for tests, it follows from the
// passphrase and is no secret.
type Identities struct {
	PayerSeed     string `json:"payerSeed"`     // holds lumens and the demo asset, to pay with
	IssuerSeed    string `json:"issuerSeed"`    // issues the demo asset
	FriendbotSeed string `json:"friendbotSeed"` // funds new accounts
}

// maxIdentitiesBytes bounds what LoadOrCreateIdentities reads.
const maxIdentitiesBytes = 4096

// NewIdentities makes three random key pairs.
func NewIdentities() (Identities, error) {
	var id Identities
	for _, seed := range []*string{&id.PayerSeed, &id.IssuerSeed, &id.FriendbotSeed} {
		pair, err := keypair.Random()
		if err != nil {
			return Identities{}, fmt.Errorf("make a key pair for the development network: %w", err)
		}
		*seed = pair.Seed()
	}
	return id, nil
}

// LoadOrCreateIdentities reads the identities from a JSON file, or makes new ones and writes
// them to it: mode 0600, complete or not at all, and of several processes that create it at
// once one wins.
func LoadOrCreateIdentities(path string) (Identities, error) {
	id, err := loadIdentities(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if id, err = NewIdentities(); err != nil {
		return Identities{}, err
	}
	if err := createIdentities(path, id); err != nil {
		return Identities{}, err
	}
	return loadIdentities(path)
}

func loadIdentities(path string) (Identities, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Identities{}, fmt.Errorf("read the development network's identities: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return Identities{}, fmt.Errorf("identities file %s has mode %04o and holds secret keys: run "+
			"chmod 600 on it", path, mode)
	}
	if info.Size() > maxIdentitiesBytes {
		return Identities{}, fmt.Errorf("identities file %s has %d bytes, more than the %d such a file "+
			"can have", path, info.Size(), maxIdentitiesBytes)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return Identities{}, fmt.Errorf("read the development network's identities: %w", err)
	}
	var id Identities
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

// createIdentities links a complete file into place: a link, unlike a rename, never replaces
// the file of another process that was faster.
func createIdentities(path string, id Identities) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder of the development network's identities: %w", err)
	}
	raw, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the development network's identities: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".identities-*") // CreateTemp makes mode 0600
	if err != nil {
		return fmt.Errorf("write the development network's identities: %w", err)
	}
	defer os.Remove(temp.Name())
	_, writeErr := temp.Write(append(raw, '\n'))
	if err := errors.Join(writeErr, temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("write the development network's identities: %w", err)
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write the development network's identities: %w", err)
	}
	return nil
}

// PayerAddress is the payer's public address; "" when its seed is not valid.
func (id Identities) PayerAddress() string { return addressOf(id.PayerSeed) }

// IssuerAddress is the issuer's public address; "" when its seed is not valid.
func (id Identities) IssuerAddress() string { return addressOf(id.IssuerSeed) }

// FriendbotAddress is friendbot's public address; "" when its seed is not valid.
func (id Identities) FriendbotAddress() string { return addressOf(id.FriendbotSeed) }

// DemoAsset is the demo asset as CODE:ISSUER.
func (id Identities) DemoAsset() string { return DemoAssetCode + ":" + id.IssuerAddress() }

// String names the accounts and never their seeds, so that printing a configuration leaks nothing.
func (id Identities) String() string {
	return fmt.Sprintf("{payer %s, issuer %s, friendbot %s}", id.PayerAddress(), id.IssuerAddress(),
		id.FriendbotAddress())
}

// GoString keeps the seeds out of %#v too.
func (id Identities) GoString() string { return "devnet.Identities" + id.String() }

// LogValue keeps them out of structured logs.
func (id Identities) LogValue() slog.Value { return slog.StringValue(id.String()) }

// validate names a faulty seed by its field and never by its value.
func (id Identities) validate() error {
	var faults []error
	seen := map[string]string{}
	for _, f := range []struct{ field, seed string }{
		{"payerSeed", id.PayerSeed}, {"issuerSeed", id.IssuerSeed}, {"friendbotSeed", id.FriendbotSeed},
	} {
		address := addressOf(f.seed)
		switch other := seen[address]; {
		case address == "":
			faults = append(faults,
				fmt.Errorf("identity %s is not a Stellar secret key (S and 55 more characters)", f.field))
		case other != "":
			faults = append(faults,
				fmt.Errorf("identity %s is the same key as %s: each needs its own", f.field, other))
		default:
			seen[address] = f.field
		}
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
