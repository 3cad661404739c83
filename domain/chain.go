package domain

// LedgersPerChain is how many numbers of ledgers each chain of a network has. A test network is
// reset from time to time: another chain then counts its ledgers from 1 again. So that a number
// always names one ledger, those of the second chain that is followed have this added, those
// of the third twice this, and so on. Whatever is derived of a number, such as the id of a
// payment and of its events, so differs between chains.
//
// The public network, which is never reset, has fewer ledgers than this until about 2048.
const LedgersPerChain = 200_000_000

// ChainsMax is how many chains can be followed, one after the other.
const ChainsMax = 1<<32/LedgersPerChain - 1

// ChainBase is what is added to the numbers of the chain that a ledger is of; 0: the first one.
func ChainBase(ledger uint32) uint32 { return ledger - ledger%LedgersPerChain }

// OnChain is the number that a ledger has on its own chain.
func OnChain(ledger uint32) uint32 { return ledger % LedgersPerChain }
