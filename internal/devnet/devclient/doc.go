// Package devclient is what a person or a script does on the development network: make an
// account, trust an asset, pay. It knows the network by its URLs only, through the Stellar
// SDK's own RPC client, and every call returns after the ledger that holds its work is closed.
//
// It hides sequence numbers. Senders that share an account, in one process or in many, each get
// a number of their own: a client remembers the next number of its accounts, and looks for the
// free one when somebody else was faster.
//
//   - client.go: Client, submitting and waiting
//   - pay.go: Pay
//   - account.go: CreateAccount, EnsureTrustline, Fund
//   - results.go: result codes in words
package devclient
