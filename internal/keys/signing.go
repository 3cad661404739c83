package keys

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

const (
	// Overlap is how long a key keeps signing next to its successor, as for secrets.
	Overlap = domain.SecretOverlapMillis * time.Millisecond
	// LeastLead is how long a key that follows another is published before it signs, at least.
	LeastLead = 2 * time.Hour
	// KeptPublished is how long a key stays published after it signed last, at least.
	KeptPublished = 30 * 24 * time.Hour

	// maxFileBytes is more than maxKeys need.
	maxFileBytes = 1 << 20
)

// SigningKey is one key of the file.
type SigningKey struct {
	ID        string    `json:"kid"` // the JWK thumbprint (RFC 7638)
	Public    []byte    `json:"publicKey"`
	Sealed    []byte    `json:"sealedPrivateKey"` // the seed, under the master key
	MadeAt    time.Time `json:"madeAt"`
	SignsFrom time.Time `json:"signsFrom"`
}

// signingFile is the file: oldest first.
type signingFile struct {
	Keys []SigningKey `json:"keys"`
}

// sealedFor returns the binding of a private key.
func sealedFor(id string) string { return "signing key " + id }

// newSigningKey draws a key and seals it. It draws again if the id begins with a hyphen, which a
// command line takes for a flag.
func newSigningKey(s *Sealer, now, signsFrom time.Time) (SigningKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return SigningKey{}, fmt.Errorf("signing: drawing a key: %w", err)
	}
	id := domain.SigningKeyID(public)
	if strings.HasPrefix(id, "-") {
		return newSigningKey(s, now, signsFrom)
	}
	k := SigningKey{
		ID:        id,
		Public:    public,
		MadeAt:    now.UTC().Truncate(time.Second),
		SignsFrom: signsFrom.UTC().Truncate(time.Second),
	}
	k.Sealed, err = s.Seal(private.Seed(), sealedFor(k.ID))
	return k, err
}

// open returns the private key.
func (k SigningKey) open(s *Sealer) (ed25519.PrivateKey, error) {
	seed, err := s.Open(k.Sealed, sealedFor(k.ID))
	if err != nil {
		return nil, fmt.Errorf("signing: opening key %s (is this the master key it was sealed with?): %w",
			k.ID, err)
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("signing: key %s: what was sealed is no Ed25519 key", k.ID)
	}
	private := ed25519.NewKeyFromSeed(seed)
	if !bytes.Equal(private.Public().(ed25519.PublicKey), k.Public) {
		return nil, fmt.Errorf("signing: key %s: its public key is another's: restore the file from "+
			"a copy", k.ID)
	}
	return private, nil
}

// SignsUntil returns when the i-th key signs last; the zero time while no other follows it.
func SignsUntil(keys []SigningKey, i int) time.Time {
	if i == len(keys)-1 {
		return time.Time{}
	}
	return keys[i+1].SignsFrom.Add(Overlap)
}

// signersAt returns the keys that sign at a time, newest first.
func signersAt(keys []SigningKey, now time.Time) (signers []SigningKey) {
	for i := len(keys) - 1; i >= 0; i-- {
		until := SignsUntil(keys, i)
		if !keys[i].SignsFrom.After(now) && (until.IsZero() || now.Before(until)) {
			signers = append(signers, keys[i])
		}
	}
	return signers
}

// errNotKeys replaces the decoder's own error.
var errNotKeys = errors.New("it does not hold signing keys as `lumenhook secrets signing create` " +
	"makes them: restore it from a copy")

func parseSigning(text []byte) ([]SigningKey, error) {
	var set signingFile
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&set); err != nil || decoder.More() {
		return nil, errNotKeys
	}
	if len(set.Keys) == 0 || len(set.Keys) > maxKeys {
		return nil, errNotKeys
	}
	for i, k := range set.Keys {
		inOrder := i == 0 || !k.SignsFrom.Before(set.Keys[i-1].SignsFrom)
		if len(k.Public) != ed25519.PublicKeySize || k.ID != domain.SigningKeyID(k.Public) || !inOrder {
			return nil, errNotKeys
		}
	}
	return set.Keys, nil
}

func encodeSigning(keys []SigningKey) ([]byte, error) {
	text, err := json.MarshalIndent(signingFile{keys}, "", "  ")
	return append(text, '\n'), err
}
