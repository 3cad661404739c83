package directory

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// walletSet contains the hash of each watched wallet, so that most payments need no read of the
// store. A wallet that is no longer watched stays until the next start. It is safe for concurrent
// use.
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

func (d *Directory) readWallets() error {
	return d.store.Scan([]byte{spaceWallets}, []byte{spaceWallets + 1},
		func(key, _ []byte) (bool, error) {
			d.wallets.add(key[1:max(1, bytes.IndexByte(key, 0))])
			return true, nil
		})
}
