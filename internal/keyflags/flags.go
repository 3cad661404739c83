// Package keyflags are the flags of API keys, for every command that creates one, and the
// generation of keys.
//
// It hides how permissions, networks and an expiry are parsed. The text of a key is
// returned once; only its hash is stored.
package keyflags

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/domain"
)

// Flags are what was given.
type Flags struct {
	name        string
	permissions []string
	cidrs       []string
	expiresIn   time.Duration
	live        bool
}

// Register adds the flags, with a key's default permissions.
func (k *Flags) Register(f *pflag.FlagSet, permissions ...string) {
	f.StringVar(&k.name, "name", "", "name of the key, for people")
	f.StringSliceVar(&k.permissions, "permissions", permissions, "read, write, operate")
	f.StringSliceVar(&k.cidrs, "allow-cidr", nil,
		"networks that the key may be used from; anywhere when not given")
	f.DurationVar(&k.expiresIn, "expires-in", 0,
		"when the key ends, such as 720h; never when not given")
	f.BoolVar(&k.live, "live", false, "a key for the public network (whk_live_)")
}

// Draw generates a key: one for the public network if the service or --live says so. All
// faults of the flags are reported at once.
func (k *Flags) Draw(live bool) (key domain.Key, text string, err error) {
	var id [16]byte
	rand.Read(id[:])
	key = domain.Key{ID: domain.NewID(domain.KeyPrefix, id), Name: k.name}
	faults := append(k.parsePermissions(&key), k.parseNetworks(&key)...)
	if k.expiresIn < 0 {
		faults = append(faults, fmt.Errorf("--expires-in %s: must be in the future", k.expiresIn))
	}
	if k.expiresIn > 0 {
		key.ExpiresAtMillis = time.Now().Add(k.expiresIn).UnixMilli()
	}
	var entropy [32]byte
	rand.Read(entropy[:])
	text = domain.NewAPIKey(live || k.live, entropy)
	key.Hash = domain.APIKeyHash(text)
	return key, text, errors.Join(faults...)
}

func (k *Flags) parsePermissions(key *domain.Key) (faults []error) {
	for _, name := range k.permissions {
		p := domain.Permission(name)
		if !slices.Contains(domain.Permissions(), p) {
			faults = append(faults, fmt.Errorf("--permissions %q: must be read, write or operate", p))
		}
		if !slices.Contains(key.Permissions, p) {
			key.Permissions = append(key.Permissions, p)
		}
	}
	if len(key.Permissions) == 0 {
		faults = append(faults,
			errors.New("--permissions: name one or more of read, write and operate"))
	}
	return faults
}

func (k *Flags) parseNetworks(key *domain.Key) (faults []error) {
	for _, text := range k.cidrs {
		if !strings.Contains(text, "/") {
			if address, err := netip.ParseAddr(text); err == nil {
				text = netip.PrefixFrom(address, address.BitLen()).String()
			}
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("--allow-cidr %q: "+
				"must be a network such as 192.0.2.0/24, or one address", text))
			continue
		}
		key.AllowedCIDRs = append(key.AllowedCIDRs, prefix.Masked().String())
	}
	return faults
}
