package keys

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

const (
	// Overlap is how long a key continues to sign after its successor starts, as for secrets.
	Overlap = domain.SecretOverlapMillis * time.Millisecond
	// LeastLead is the minimum time between publishing a new key and its first signature.
	LeastLead = 2 * time.Hour
	// KeptPublished is the minimum time for which a key stays published after its last signature.
	KeptPublished = 30 * 24 * time.Hour

	// maxFileBytes is more than maxKeys keys need.
	maxFileBytes = 1 << 20
)

// SigningKey is a key in the file.
type SigningKey struct {
	ID        string    `json:"kid"` // JWK thumbprint (RFC 7638)
	Public    []byte    `json:"publicKey"`
	Sealed    []byte    `json:"sealedPrivateKey"` // seed, encrypted with the master key
	MadeAt    time.Time `json:"madeAt"`
	SignsFrom time.Time `json:"signsFrom"`
}

type signingFile struct {
	Keys []SigningKey `json:"keys"`
}

func sealedFor(id string) string { return "signing key " + id }

// newSigningKey creates and encrypts a key. It avoids IDs that start with a hyphen, because they
// would be parsed as flags on the command line.
func newSigningKey(s *Sealer, now, signsFrom time.Time) (SigningKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return SigningKey{}, fmt.Errorf("signing: creating a key: %w", err)
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

func (k SigningKey) open(s *Sealer) (ed25519.PrivateKey, error) {
	seed, err := s.Open(k.Sealed, sealedFor(k.ID))
	if err != nil {
		return nil, fmt.Errorf("signing: opening key %s (is this the master key it was sealed with?): %w",
			k.ID, err)
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("signing: key %s: the encrypted value is not an Ed25519 key", k.ID)
	}
	private := ed25519.NewKeyFromSeed(seed)
	if !bytes.Equal(private.Public().(ed25519.PublicKey), k.Public) {
		return nil, fmt.Errorf("signing: key %s: its public key does not match: restore the file from "+
			"a backup", k.ID)
	}
	return private, nil
}

// SignsUntil returns when the i-th key stops signing, or the zero time if it is the last one.
func SignsUntil(keys []SigningKey, i int) time.Time {
	if i == len(keys)-1 {
		return time.Time{}
	}
	return keys[i+1].SignsFrom.Add(Overlap)
}

// signersAt returns the keys that sign at the given time, newest first.
func signersAt(keys []SigningKey, now time.Time) (signers []SigningKey) {
	for i := len(keys) - 1; i >= 0; i-- {
		until := SignsUntil(keys, i)
		if !keys[i].SignsFrom.After(now) && (until.IsZero() || now.Before(until)) {
			signers = append(signers, keys[i])
		}
	}
	return signers
}

// errNotKeys replaces the decoder's own errors.
var errNotKeys = errors.New("it is not a signing key file of `lumenhook secrets signing create`: " +
	"restore it from a backup")

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

// SigningFileName is the name of the signing key file in the folder of the master key file.
const SigningFileName = "signing-keys"

// SigningKeyPath returns the path of the signing key file in the folder of a master key file.
func SigningKeyPath(masterKeyFile string) string {
	return filepath.Join(filepath.Dir(masterKeyFile), SigningFileName)
}

// CreateSigning creates the file with a first key, which starts to sign at signsFrom.
func CreateSigning(path string, s *Sealer, now, signsFrom time.Time) ([]SigningKey, error) {
	return replace(path, func(text []byte) ([]SigningKey, error) {
		if text != nil {
			return nil, fmt.Errorf("signing: %s exists: `lumenhook secrets signing rotate` makes another "+
				"key in it", path)
		}
		k, err := newSigningKey(s, now, signsFrom)
		return []SigningKey{k}, err
	})
}

// RotateSigning adds a key that signs from signsFrom on, at least LeastLead from now.
func RotateSigning(path string, s *Sealer, now, signsFrom time.Time) ([]SigningKey, error) {
	return change(path, func(keys []SigningKey) ([]SigningKey, error) {
		newest := keys[len(keys)-1]
		switch {
		case signsFrom.Before(now.Add(LeastLead)):
			return nil, fmt.Errorf("signing: a key must be published for %s before it signs, because "+
				"receivers keep the published keys for a while: let it sign later, or replace all keys at "+
				"once if one was stolen", LeastLead)
		case newest.SignsFrom.After(now):
			return nil, fmt.Errorf("signing: key %s was made already and signs from %s: rotate after that",
				newest.ID, newest.SignsFrom.Format(time.RFC3339))
		case len(keys) >= maxKeys:
			return nil, fmt.Errorf("signing: there are %d keys, which is the maximum: drop keys that are "+
				"no longer needed for verification", maxKeys)
		}
		k, err := newSigningKey(s, now, signsFrom)
		return append(keys, k), err
	})
}

// ReplaceSigning replaces all keys with a new one, which invalidates all earlier signatures.
func ReplaceSigning(path string, s *Sealer, now time.Time) ([]SigningKey, error) {
	return change(path, func([]SigningKey) ([]SigningKey, error) {
		k, err := newSigningKey(s, now, now)
		return []SigningKey{k}, err
	})
}

// DropSigning removes a key that last signed at least KeptPublished ago.
func DropSigning(path, id string, now time.Time) ([]SigningKey, error) {
	return change(path, func(keys []SigningKey) ([]SigningKey, error) {
		i := slices.IndexFunc(keys, func(k SigningKey) bool { return k.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("signing: there is no key %s in %s", id, path)
		}
		until := SignsUntil(keys, i)
		if until.IsZero() {
			return nil, fmt.Errorf("signing: key %s is the newest, and was not dropped: rotate first", id)
		}
		if end := until.Add(KeptPublished); now.Before(end) {
			return nil, fmt.Errorf("signing: key %s was not dropped: it stays published until %s, for "+
				"those who verify later what it signed", id, end.Format(time.RFC3339))
		}
		return slices.Delete(keys, i, i+1), nil
	})
}

// ResealSigning re-encrypts the private keys with the newest master key. It returns the number of
// re-encrypted keys, which is 0 if there is no file.
func ResealSigning(path string, s *Sealer) (resealed int, err error) {
	keys, err := ReadSigning(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	old := func(k SigningKey) bool {
		_, changed, err := s.Reseal(k.Sealed, sealedFor(k.ID))
		return changed || err != nil
	}
	if !slices.ContainsFunc(keys, old) {
		return 0, nil
	}
	_, err = change(path, func(keys []SigningKey) ([]SigningKey, error) {
		for i, k := range keys {
			sealed, changed, err := s.Reseal(k.Sealed, sealedFor(k.ID))
			if err != nil {
				return nil, fmt.Errorf("signing: key %s of %s: %w", k.ID, path, err)
			}
			if changed {
				keys[i].Sealed, resealed = sealed, resealed+1
			}
		}
		return keys, nil
	})
	return resealed, err
}

// missingError means that there is no signing key file. It matches [fs.ErrNotExist].
type missingError string

func (e missingError) Error() string {
	return fmt.Sprintf("signing: there is no %s: `lumenhook secrets signing create` makes it",
		string(e))
}

func (missingError) Is(target error) bool { return target == fs.ErrNotExist }

// ReadSigning returns the keys in a file, oldest first.
func ReadSigning(path string) ([]SigningKey, error) {
	text, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missingError(path)
	case err != nil:
		return nil, fmt.Errorf("signing: %w", err)
	}
	keys, err := parseSigning(text)
	if err != nil {
		return nil, fmt.Errorf("signing: %s: %w", path, err)
	}
	return keys, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: %w", path, errNotKeys)
	}
	return os.ReadFile(path)
}

func change(path string, by func([]SigningKey) ([]SigningKey, error)) ([]SigningKey, error) {
	return replace(path, func(text []byte) ([]SigningKey, error) {
		if text == nil {
			return nil, missingError(path)
		}
		keys, err := parseSigning(text)
		if err != nil {
			return nil, fmt.Errorf("signing: %s: %w", path, err)
		}
		return by(keys)
	})
}

func replace(
	path string, by func(text []byte) ([]SigningKey, error),
) (keys []SigningKey, err error) {
	err = changeFile(path, func() ([]byte, error) {
		text, err := readFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("signing: %w", err)
		}
		if keys, err = by(text); err != nil {
			return nil, err
		}
		return encodeSigning(keys)
	})
	return keys, err
}

const (
	// endpointKeyLabel distinguishes endpoint keys from other uses of a deployment's key. It must
	// never change, because receivers know the derived keys.
	endpointKeyLabel = "lumenhook/ed25519/"
	// cachedEndpointKeys is the maximum number of derived keys that a process caches.
	cachedEndpointKeys = 4096
)

// SigningRing provides a process's signing keys. It is safe for concurrent use. A nil ring is
// empty.
type SigningRing struct {
	path   string
	sealer *Sealer
	now    func() time.Time
	logger *slog.Logger

	mu     sync.Mutex // protects the fields below
	looked time.Time
	said   bool        // the read error was logged
	info   fs.FileInfo // of the file that was read; nil if there is none
	keys   []SigningKey
	opened map[string]domain.Secret // decrypted private keys by ID

	derived *lru.Cache[string, domain.Secret] // keys of endpoints that had deliveries
}

// OpenSigning returns the keys in a file, which may not exist yet.
func OpenSigning(
	path string, s *Sealer, now func() time.Time, logger *slog.Logger,
) (*SigningRing, error) {
	derived, err := lru.New[string, domain.Secret](cachedEndpointKeys)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	r := &SigningRing{
		path:    path,
		sealer:  s,
		now:     now,
		logger:  logger,
		opened:  make(map[string]domain.Secret),
		derived: derived,
	}
	err = r.read()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return r, err
}

// read reads the file if it has changed. The caller must hold mu, unless nobody else uses r yet.
func (r *SigningRing) read() error {
	r.looked = time.Now()
	info, err := os.Stat(r.path)
	if err != nil {
		return err
	}
	if r.info != nil && os.SameFile(info, r.info) && info.Size() == r.info.Size() &&
		info.ModTime().Equal(r.info.ModTime()) {
		return nil
	}
	keys, err := ReadSigning(r.path)
	if err == nil {
		r.keys, r.info = keys, info
		clear(r.opened)
		r.derived.Purge()
	}
	return err
}

// current returns the keys, and checks the file now and then. The caller must hold mu.
func (r *SigningRing) current() []SigningKey {
	if time.Since(r.looked) >= lookEvery {
		r.follow()
	}
	return r.keys
}

// follow reads the file. If that fails, it keeps the known keys and logs once, because this process
// doesn't sign with newer keys and couldn't be restarted. The caller must hold mu.
func (r *SigningRing) follow() {
	err := r.read()
	if errors.Is(err, fs.ErrNotExist) && r.info == nil {
		err = nil // there was none before
	}
	if err != nil && !r.said {
		r.logger.Error("cannot read the signing key file; the known keys stay in use until a restart: "+
			"make the file readable for this process, or restore it",
			"file", r.path, "error", err)
	}
	r.said = err != nil
}

// Published returns the deployment's own keys, oldest first.
func (r *SigningRing) Published() []SigningKey {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current()
}

// Signs reports whether any key signs now.
func (r *SigningRing) Signs() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(signersAt(r.current(), r.now())) > 0
}

// Signers returns the private keys that sign receipts at the given time, newest first.
func (r *SigningRing) Signers(nowMillis int64) ([]domain.Secret, error) {
	return r.private(func(keys []SigningKey) []SigningKey {
		return signersAt(keys, time.UnixMilli(nowMillis))
	})
}

// EndpointSigners returns an endpoint's private keys that sign at the given time, newest first.
// Each is derived from one of the deployment's keys.
func (r *SigningRing) EndpointSigners(
	endpointID string, nowMillis int64,
) (private []domain.Secret, err error) {
	own, err := r.Signers(nowMillis)
	for _, key := range own {
		// The second half of a private key is the public key.
		name := endpointID + string(key[ed25519.SeedSize:])
		derived, known := r.derived.Get(name)
		if !known {
			if derived, err = endpointKey(key, endpointID); err != nil {
				return nil, err
			}
			r.derived.Add(name, derived)
		}
		private = append(private, derived)
	}
	return private, err
}

// EndpointPublished returns an endpoint's public keys, oldest first. Each is derived from one of
// the deployment's published keys. They are not cached because anyone can request them.
func (r *SigningRing) EndpointPublished(endpointID string) (public []ed25519.PublicKey, err error) {
	own, err := r.private(func(keys []SigningKey) []SigningKey { return keys })
	for _, key := range own {
		derived, err := endpointKey(key, endpointID)
		if err != nil {
			return nil, err
		}
		public = append(public, ed25519.PublicKey(derived[ed25519.SeedSize:]))
	}
	return public, err
}

func (r *SigningRing) private(
	which func([]SigningKey) []SigningKey,
) (private []domain.Secret, err error) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range which(r.current()) {
		plain, ok := r.opened[k.ID]
		if !ok {
			key, err := k.open(r.sealer)
			if err != nil {
				return nil, err
			}
			plain = domain.Secret(key)
			r.opened[k.ID] = plain
		}
		private = append(private, plain)
	}
	return private, nil
}

// endpointKey derives an endpoint's private key from a deployment's key: HKDF-SHA256 of its seed,
// with the endpoint's ID in the info (RFC 5869). An endpoint's key reveals nothing about other
// endpoints' keys or the deployment's key.
func endpointKey(own domain.Secret, endpointID string) (domain.Secret, error) {
	seed, err := hkdf.Key(sha256.New, []byte(own[:ed25519.SeedSize]), nil,
		endpointKeyLabel+endpointID, ed25519.SeedSize)
	if err != nil {
		return "", fmt.Errorf("signing: deriving the key of endpoint %s: %w", endpointID, err)
	}
	return domain.Secret(ed25519.NewKeyFromSeed(seed)), nil
}
