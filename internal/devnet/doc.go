// Package devnet is a Stellar network for development that runs in one process. It closes a ledger
// every second and serves the methods of Stellar RPC, and friendbot, over HTTP. Lumenhook, the
// Stellar SDKs and users with curl can use it like the real network.
//
// It maintains the ledger: accounts, trustlines and balances; checking and applying transactions;
// real XDR (envelopes, results, meta, LedgerCloseMeta, and the chain of header hashes); and the
// folder where it is stored. It supports account creation, payments, trustlines, path payments
// through a market that trades the demo asset at a fixed rate, account merges, claimable balances
// without conditions, the transfer function of the contracts of the native and the demo asset, all
// memo types, muxed accounts, operation sources and fee bumps. It rejects all other operations as
// not supported, like the real network.
//
// It has the methods of Stellar RPC that clients need to pay and to follow ledgers: getHealth,
// getNetwork, getLatestLedger, getLedgers, getLedgerEntries, getTransaction and sendTransaction.
//
// Invariants:
//
//   - D1: A ledger, its transactions and the state after it are written to disk in one batch before
//     a response contains them. If the process is killed, the network continues from the last
//     ledger that was served.
//   - D2: Every header contains the hashes of the previous header, of the transaction set and of
//     the results.
//   - D3: The balances of all accounts, claimable balances and the fee pool add up to the lumens in
//     the genesis ledger.
//   - D4: A transaction that fails in a ledger pays its fee and uses its sequence number, but
//     changes nothing else. A transaction that is refused or expires in the queue costs nothing and
//     is in no ledger.
//   - D5: The state can be computed from the changes in all ledgers: first the fees of a ledger,
//     then its transactions in order.
//   - D6: The queue, ledgers, requests, responses and the number of concurrent requests are
//     limited. If a limit is reached, the client is asked to try again.
//   - D7: The changes of an operation match its result.
//
// The state and the queue are kept in memory. If the process dies, PENDING transactions become
// NOT_FOUND and can be sent again, as on the real network.
//
// File map:
//
//   - config.go, identities.go: settings, and the accounts in the first ledger
//   - network.go: lifecycle of a network, its queue, and closing ledgers
//   - genesis.go: the first ledger
//   - transaction.go: checking transactions before they enter the queue
//   - operations.go, paths.go, claimable.go, contract.go: operations and their results
//   - state.go: ledger entries and layers of changes
//   - ledger.go: closed ledgers in XDR
//   - store.go: the folder
//   - rpc.go, methods.go, friendbot.go: the HTTP server
//   - faults.go: responses that are spoiled on request
//   - devclient/: client for paying and creating accounts
//   - devtraffic/: transactions of every kind, for tests
package devnet
