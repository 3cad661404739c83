package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// Key holds the flags of commands that create an API key. The key's text is shown once; only its
// hash is stored.
type Key struct {
	name        string
	permissions []string
	cidrs       []string
	expiresIn   time.Duration
	live        bool
}

// Register adds the flags. permissions is the default for --permission.
func (k *Key) Register(f *pflag.FlagSet, permissions ...string) {
	new(Flags).Group(f, "", "",
		Value("name", &k.name, "", "name for the key"),
		Value("permission", &k.permissions, permissions,
			"permission of the key: read, write or operate; can be repeated").
			Of("read", "write", "operate"),
		Value("allow-cidr", &k.cidrs, nil,
			"networks that can use the key (default any)"),
		Value("expires-in", &k.expiresIn, 0,
			"time until the key expires, such as 720h (default never)"),
		Value("live", &k.live, false, "create a key for the public network (whk_live_)"))
}

// Draw generates a key for the public network if live or --live is set, and a test key otherwise.
// The error reports all invalid flags.
func (k *Key) Draw(live bool) (key domain.Key, text string, err error) {
	var entropy [32]byte
	rand.Read(entropy[:])
	text = domain.NewAPIKey(live || k.live, entropy)
	key = domain.Key{ID: NewID(domain.KeyPrefix), Name: k.name, Hash: domain.APIKeyHash(text)}
	faults := append(k.parsePermissions(&key), k.parseNetworks(&key)...)
	if k.expiresIn < 0 {
		faults = append(faults, fmt.Errorf("--expires-in %s: must be in the future", k.expiresIn))
	}
	if k.expiresIn > 0 {
		key.ExpiresAtMillis = time.Now().Add(k.expiresIn).UnixMilli()
	}
	return key, text, errors.Join(faults...)
}

func (k *Key) parsePermissions(key *domain.Key) (faults []error) {
	for _, name := range k.permissions {
		p := domain.Permission(name)
		if !slices.Contains(domain.Permissions(), p) {
			faults = append(faults, fmt.Errorf("--permission %q: must be read, write or operate", p))
		}
		if !slices.Contains(key.Permissions, p) {
			key.Permissions = append(key.Permissions, p)
		}
	}
	if len(key.Permissions) == 0 {
		faults = append(faults,
			errors.New("--permission: name one or more of read, write and operate"))
	}
	return faults
}

func (k *Key) parseNetworks(key *domain.Key) (faults []error) {
	for _, text := range k.cidrs {
		if address, err := netip.ParseAddr(text); err == nil {
			text = netip.PrefixFrom(address, address.BitLen()).String()
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("--allow-cidr %q: "+
				"must be a network such as 192.0.2.0/24 or an address", text))
			continue
		}
		key.AllowedCIDRs = append(key.AllowedCIDRs, prefix.Masked().String())
	}
	return faults
}

// Secrets holds the flags for an endpoint's signing secrets. Errors never repeat a value, because
// it is a secret or was mistaken for one.
type Secrets struct {
	given []string
	File  string // empty: no file; -: standard input
}

const secretFileUsage = "file that contains the endpoint's signing secrets, one per line; " +
	"- for standard input"

// Register adds the flags.
func (s *Secrets) Register(f *pflag.FlagSet) {
	new(Flags).Group(f, "", "",
		Value("secret", &s.given, nil, "signing secret of the endpoint; can be repeated; for "+
			"security, use LUMENHOOK_SECRET or a file instead"),
		Value("secret-file", &s.File, "", "file that contains the endpoint's signing secrets, one per "+
			"line; - for standard input"))
}

// Given reports whether a secret or a file was given.
func (s *Secrets) Given() bool { return s.File != "" || len(s.given) > 0 }

// Read returns the secrets from the flags, the file or standard input.
func (s *Secrets) Read(stdin io.Reader) ([]domain.Secret, error) {
	if !s.Given() {
		return nil, fmt.Errorf("--secret-file is required: the %s; or set "+
			"LUMENHOOK_SECRET", secretFileUsage)
	}
	if s.File != "" {
		secrets, err := ReadSecrets(s.File, stdin)
		if err != nil {
			return nil, fmt.Errorf("--secret-file %q: %w", s.File, err)
		}
		return secrets, nil
	}
	secrets, err := parseSecrets(s.given)
	if err != nil {
		return nil, fmt.Errorf("--secret: %w", err)
	}
	return secrets, nil
}

// maxSecretBytes bounds a file of secrets. An endpoint has at most 25 secrets of 58 bytes.
const maxSecretBytes = 64 << 10

// ReadSecrets reads secrets from a file, one per line. - reads standard input.
func ReadSecrets(file string, stdin io.Reader) ([]domain.Secret, error) {
	text, err := cli.ReadInput(stdin, file, maxSecretBytes)
	if err != nil {
		return nil, err
	}
	return parseSecrets(strings.Fields(string(text)))
}

func parseSecrets(given []string) (secrets []domain.Secret, err error) {
	for _, s := range given {
		if !strings.HasPrefix(s, domain.SecretPrefix) || s == domain.SecretPrefix {
			return nil, fmt.Errorf("must be the complete secret, which starts with %s",
				domain.SecretPrefix)
		}
		secrets = append(secrets, domain.Secret(s))
	}
	if len(secrets) == 0 {
		return nil, errors.New("contains no secrets")
	}
	return secrets, nil
}
