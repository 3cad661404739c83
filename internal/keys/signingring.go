package keys

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

const (
	// endpointKeyLabel separates the keys of endpoints from any other use of a deployment's key. It
	// never changes: receivers know the keys that it leads to.
	endpointKeyLabel = "lumenhook/ed25519/"
	// cachedEndpointKeys bounds the derived keys that a process remembers.
	cachedEndpointKeys = 4096
)

// SigningRing is the keys of a running process. It may be used by many goroutines. One that is nil
// has no keys.
type SigningRing struct {
	path   string
	sealer *Sealer
	now    func() time.Time
	logger *slog.Logger

	mu     sync.Mutex // holds those below
	looked time.Time
	said   bool        // that the file could not be followed
	info   fs.FileInfo // of the file that was read; nil: no file
	keys   []SigningKey
	opened map[string]domain.Secret // private keys by id

	derived *lru.Cache[string, domain.Secret] // of endpoints that were sent to
}

// OpenSigning returns the keys of a file, which need not exist yet.
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

// read reads the file. The caller holds the lock, or is the only one.
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

// current returns the keys, after a look at the file now and then. The caller holds the lock.
func (r *SigningRing) current() []SigningKey {
	if time.Since(r.looked) >= lookEvery {
		r.follow()
	}
	return r.keys
}

// follow reads the file. If that fails, the known keys stay in use, which is said once: a key
// that was made since would not sign here, and the process would not start again. The caller
// holds the lock.
func (r *SigningRing) follow() {
	err := r.read()
	if errors.Is(err, fs.ErrNotExist) && r.info == nil {
		err = nil // no file in either case
	}
	if err != nil && !r.said {
		r.logger.Error("the file of signing keys cannot be read; the keys that it had stay in use, and "+
			"a start without it would have none: make it readable for this process, or restore it",
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

// Signs reports whether a key signs now.
func (r *SigningRing) Signs() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(signersAt(r.current(), r.now())) > 0
}

// Signers returns the deployment's own private keys that sign at a time, newest first. They sign
// receipts.
func (r *SigningRing) Signers(nowMillis int64) ([]domain.Secret, error) {
	return r.private(func(keys []SigningKey) []SigningKey {
		return signersAt(keys, time.UnixMilli(nowMillis))
	})
}

// EndpointSigners returns an endpoint's private keys that sign at a time, newest first: one for
// each of the deployment's own that signs then.
func (r *SigningRing) EndpointSigners(
	endpointID string, nowMillis int64,
) (private []domain.Secret, err error) {
	own, err := r.Signers(nowMillis)
	for _, key := range own {
		// The second half of a private key is the public one.
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

// EndpointPublished returns an endpoint's public keys, oldest first: one for each of the
// deployment's own that is published. Anyone may ask for them, so they are not remembered.
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

// private opens keys of the file.
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

// endpointKey derives an endpoint's private key from one of the deployment's own: HKDF-SHA256 of
// its seed, with the endpoint's id in the info (RFC 5869). The key of one endpoint says nothing
// about the key of another, nor about the deployment's.
func endpointKey(own domain.Secret, endpointID string) (domain.Secret, error) {
	seed, err := hkdf.Key(sha256.New, []byte(own[:ed25519.SeedSize]), nil,
		endpointKeyLabel+endpointID, ed25519.SeedSize)
	if err != nil {
		return "", fmt.Errorf("signing: deriving the key of endpoint %s: %w", endpointID, err)
	}
	return domain.Secret(ed25519.NewKeyFromSeed(seed)), nil
}
