package keys

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/domain"
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
	info   fs.FileInfo // of the file that was read; nil: there was none
	keys   []SigningKey
	opened map[string]domain.Secret // private keys by id
}

// OpenSigning returns the keys of a file, which need not exist yet.
func OpenSigning(
	path string, s *Sealer, now func() time.Time, logger *slog.Logger,
) (*SigningRing, error) {
	r := &SigningRing{
		path:   path,
		sealer: s,
		now:    now,
		logger: logger,
		opened: make(map[string]domain.Secret),
	}
	err := r.read()
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
		err = nil // there was none either
	}
	if err != nil && !r.said {
		r.logger.Error("the file of signing keys cannot be read; the keys that it had stay in use, and "+
			"a start without it would have none: make it readable for this process, or restore it",
			"file", r.path, "error", err)
	}
	r.said = err != nil
}

// Published returns the keys that are published, oldest first.
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

// Signers returns the private keys that sign at a time, newest first.
func (r *SigningRing) Signers(nowMillis int64) ([]domain.Secret, error) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var private []domain.Secret
	for _, k := range signersAt(r.current(), time.UnixMilli(nowMillis)) {
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
