// Package devnet is a Stellar network in one process, for development: it closes a ledger every
// second and answers the methods of Stellar RPC, friendbot over
// HTTP, so that the rest of Lumenhook, the Stellar SDKs and people with curl meet it as they
// meet the real one.
//
// It hides the ledger: accounts, trustlines, offers and balances, the admission and application of
// transactions, the building of real XDR (envelopes, results, meta, LedgerCloseMeta, the chain of
// header hashes), and the folder it is all kept in. It knows create account, payment, change trust,
// offers to sell and to buy, path payments through them, account merges, claimable balances and
// their conditions, account data, home domains, the transfer function of the asset contracts of
// lumens and the demo asset, all memo kinds, muxed accounts, operation sources and fee bumps;
// another operation is refused as the network refuses one it does not support.
//
// Of Stellar RPC it has all methods. simulateTransaction knows the transfer only, and charges a
// fixed fee; getLedgerEntries answers for a trustline of lumens, which the network has not,
// since Stellar's JavaScript SDK asks for one.
//
// Invariants:
//
//   - D1: a ledger, its transactions and the state after it are written in one batch before
//     any answer shows them. A kill at any moment leaves a folder that continues from the
//     last ledger anybody saw.
//   - D2: every header holds the hash of the header before it, of its transaction set and of
//     its results.
//   - D3: the balances of all accounts, claimable balances and the fee pool add up to the
//     lumens of the genesis.
//   - D4: a transaction that fails in a ledger pays its fee, uses its sequence number, and
//     changes nothing else. One that is refused, or expires in the queue, costs nothing and
//     is in no ledger.
//   - D5: replaying the changes of all ledgers (fees of a ledger first, then transactions in
//     order) gives the state.
//   - D6: the queue, a ledger, a request, an answer and the requests at once are bounded; a
//     client of what does not fit is asked to try again.
//   - D7: what a result claims is in the changes of its operation, and what an offer promises
//     is reserved.
//
// The queue lives in memory: a transaction that was PENDING when the process died is NOT_FOUND
// after it, and can be sent again, as on the network.
//
// File map:
//
//   - config.go, identities.go: what a network is made of
//   - network.go: the life of a network, its queue, the closing of a ledger
//   - genesis.go: the first ledger
//   - transaction.go: what may enter the queue
//   - operations.go, offers.go, market.go, balances.go, predicate.go, accountdata.go,
//     contract.go: what operations do
//   - book.go, exchange.go: the order book and the arithmetic of a trade
//   - state.go: what operations change
//   - ledger.go: a closed ledger in XDR
//   - store.go, pagecache.go: the folder
//   - rpc.go, methods.go, events.go, simulate.go, friendbot.go: what is served
//   - faults.go: answers that are spoiled on demand
//   - lake.go: the ledgers as files, for readers of a ledger lake
//   - devtraffic/: transactions of every kind, for tests
//   - devclient/: paying and making accounts, from the outside
package devnet
