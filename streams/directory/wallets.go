package directory

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// walletSet has the hash of each wallet in the index 0x14: most payments go to unwatched wallets,
// which then cost no read of the store. It has every watched wallet. A wallet whose last watch is
// gone stays until the next start, and costs a read, like a wallet with an equal hash.
//
// It is safe for use by any goroutine.
type walletSet struct {
	seed   maphash.Seed
	mu     sync.RWMutex
	hashes map[uint64]struct{}
}

func newWalletSet() *walletSet {
	return &walletSet{seed: maphash.MakeSeed(), hashes: make(map[uint64]struct{})}
}

func (s *walletSet) add(wallet []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hashes[maphash.Bytes(s.seed, wallet)] = struct{}{}
}

// mayHave reports whether a wallet may have been added.
func (s *walletSet) mayHave(wallet string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, has := s.hashes[maphash.String(s.seed, wallet)]
	return has
}

// readWallets fills the set with the stored wallets.
func (d *Directory) readWallets() error {
	return d.store.Scan([]byte{spaceWallets}, []byte{spaceWallets + 1},
		func(key, _ []byte) (bool, error) {
			d.wallets.add(key[1:max(1, bytes.IndexByte(key, 0))])
			return true, nil
		})
}
