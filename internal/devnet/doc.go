// Package devnet is a Stellar network in one process, for development: it closes a ledger every
// second and serves the methods of Stellar RPC, and friendbot, over HTTP, so that the rest of
// Lumenhook, the Stellar SDKs and users with curl meet it as they meet the real one.
//
// It hides the ledger: accounts, trustlines and balances, the admission and application of
// transactions, the building of real XDR (envelopes, results, meta, LedgerCloseMeta, the chain of
// header hashes), and the folder that holds it. It knows create account, payment, change trust,
// path payments through a market of the demo asset at one rate, account merges, claimable balances
// without conditions, the transfer function of the asset contracts of lumens and the demo asset,
// all memo types, muxed accounts, operation sources and fee bumps. It refuses any other operation
// as the network refuses one that it does not support.
//
// It has the methods of Stellar RPC that a client needs to pay and to follow ledgers: getHealth,
// getNetwork, getLatestLedger, getLedgers, getLedgerEntries, getTransaction and sendTransaction.
//
// Invariants:
//
//   - D1: a ledger, its transactions and the state after it are on the disk in one batch before
//     any answer shows them. A kill at any moment leaves a folder that continues from the
//     last ledger that was served.
//   - D2: every header holds the hash of the header before it, of its transaction set and of
//     its results.
//   - D3: the balances of all accounts, claimable balances and the fee pool add up to the
//     lumens of the genesis.
//   - D4: a transaction that fails in a ledger pays its fee, uses its sequence number, and
//     changes nothing else. One that is refused, or expires in the queue, costs nothing and
//     is in no ledger.
//   - D5: replaying the changes of all ledgers (fees of a ledger first, then transactions in
//     order) gives the state.
//   - D6: the queue, a ledger, a request, an answer and the number of requests at once are
//     bounded; beyond that a client is asked to try again.
//   - D7: what a result claims is in the changes of its operation.
//
// The state and the queue are in memory. A transaction that was PENDING when the process died is
// NOT_FOUND after it, and can be sent again, as on the network.
//
// File map:
//
//   - config.go, identities.go: the settings, and the accounts of the first ledger
//   - network.go: the life of a network, its queue, the closing of a ledger
//   - genesis.go: the first ledger
//   - transaction.go: what may enter the queue
//   - operations.go, paths.go, claimable.go, contract.go: operations and their results
//   - state.go: ledger entries, and the layers that change them
//   - ledger.go: a closed ledger in XDR
//   - store.go: the folder
//   - rpc.go, methods.go, friendbot.go: the HTTP server
//   - faults.go: answers that are spoiled on demand
//   - devclient/: paying and creating accounts, from the outside
//   - devtraffic/: transactions of every kind, for tests
package devnet
