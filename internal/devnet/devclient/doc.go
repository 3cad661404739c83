// Package devclient acts on the development network from the outside: it creates accounts, issues
// assets and pays. It knows the network by its URLs only, through the Stellar SDK's own RPC client,
// and every call returns after the ledger that holds its work is closed.
//
// It hides sequence numbers. Senders that share an account, in one process or in many, each get
// a number of their own: a client remembers the next number of its accounts, and looks for a free
// one if another sender was faster.
//
// Invariant: an error never repeats a secret key, not even one in the place of an address.
//
//   - client.go: Client, submitting and waiting
//   - pay.go: Pay, CreateAccount, IssueAsset
//   - values.go: wallets, assets and amounts as users write them
//   - results.go: result codes in words
package devclient
