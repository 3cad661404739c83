package directory

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

const (
	// leastWallets is the smallest capacity of a filter.
	leastWallets = 1 << 12
	// bitsOfWallet is the number of a filter's bits for each wallet of its capacity; each wallet
	// sets walletProbes of them. A full filter has 2 false positives in 10,000, and far fewer
	// before.
	bitsOfWallet = 24
	walletProbes = 6

	blockWords = 8 // 64 bytes: a cache line
	blockBits  = blockWords * 64
)

// walletFilter is a blocked Bloom filter of the wallets in the index 0x14: most payments go to
// unwatched wallets, which then cost no read of the store. It has no false negatives. A wallet
// whose last watch is gone stays until the filter is rebuilt, and costs a read.
//
// One goroutine adds, any may read.
type walletFilter struct {
	seed  maphash.Seed
	words []uint64 // blocks of blockWords; all bits of a wallet are in one block
	room  int      // wallets that may still be added
}

// newWalletFilter returns a filter of wallets by their hashes, with room for as many again.
func newWalletFilter(seed maphash.Seed, hashes []uint64) *walletFilter {
	capacity := max(leastWallets, 2*len(hashes))
	blocks := (capacity*bitsOfWallet + blockBits - 1) / blockBits
	f := &walletFilter{seed: seed, words: make([]uint64, blocks*blockWords), room: capacity}
	for _, h := range hashes {
		f.addHash(h)
	}
	return f
}

// block returns the words of a hash's block.
func (f *walletFilter) block(h uint64) *[blockWords]uint64 {
	n, _ := bits.Mul64(h, uint64(len(f.words)/blockWords))
	return (*[blockWords]uint64)(f.words[n*blockWords:])
}

// probes returns the bits of a hash in its block, 9 bits of the result for each. The block is
// chosen by the hash's high bits, so these bits are taken from a product, to be independent of
// them.
func probes(h uint64) uint64 { return (h * 0x9e3779b97f4a7c15) >> (64 - 9*walletProbes) }

// addHash adds a wallet by its hash. A wallet that it already seems to have takes no room.
func (f *walletFilter) addHash(h uint64) {
	block, added := f.block(h), false
	for p, n := probes(h), 0; n < walletProbes; p, n = p>>9, n+1 {
		bit := uint64(1) << (p & 63)
		if atomic.OrUint64(&block[p>>6%blockWords], bit)&bit == 0 {
			added = true
		}
	}
	if added {
		f.room--
	}
}

func (f *walletFilter) add(wallet string) { f.addHash(maphash.String(f.seed, wallet)) }

// mayHave reports whether a wallet may have been added. A nil filter returns true.
func (f *walletFilter) mayHave(wallet string) bool {
	if f == nil {
		return true
	}
	h := maphash.String(f.seed, wallet)
	block := f.block(h)
	for p, n := probes(h), 0; n < walletProbes; p, n = p>>9, n+1 {
		if atomic.LoadUint64(&block[p>>6%blockWords])&(1<<(p&63)) == 0 {
			return false
		}
	}
	return true
}

// filterWallets creates the filter from the stored wallets.
func (d *Directory) filterWallets() error {
	seed := maphash.MakeSeed()
	var hashes []uint64
	var last []byte
	err := d.store.Scan([]byte{spaceWallets}, []byte{spaceWallets + 1},
		func(key, _ []byte) (bool, error) {
			end := bytes.IndexByte(key, 0)
			if wallet := key[1:max(1, end)]; !bytes.Equal(wallet, last) {
				last = append(last[:0], wallet...)
				hashes = append(hashes, maphash.Bytes(seed, wallet))
			}
			return true, nil
		})
	if err != nil {
		return err
	}
	d.wallets.Store(newWalletFilter(seed, hashes))
	return nil
}

// watch adds the wallets of changes to the filter before they are committed, so that a reader of
// the rows finds the wallets in it.
func (d *Directory) watch(changes []change) error {
	if d.wallets.Load().room <= 0 {
		if err := d.filterWallets(); err != nil {
			return err
		}
	}
	f := d.wallets.Load()
	for _, c := range changes {
		if c.wallet != "" {
			f.add(c.wallet)
		}
	}
	return nil
}
