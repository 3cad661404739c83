// Package devclient is a client of the devnet for creating accounts, issuing assets and paying. It
// only needs the URLs of the network and uses the RPC client of the Stellar SDK. Every call returns
// after its ledger has closed.
//
// It takes care of sequence numbers. Several senders can share an account, even in different
// processes. A client remembers the next sequence number of its accounts, and looks for an unused
// one if another sender was faster.
//
// Invariant: errors never contain a secret key, even if it was passed as an address.
//
//   - client.go: Client, submitting transactions and waiting for them
//   - pay.go: Pay, CreateAccount, IssueAsset
//   - values.go: parsing of wallets, assets and amounts
//   - results.go: descriptions of result codes
package devclient
