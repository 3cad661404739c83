// Package stellar holds no code: the packages below it are all that knows the Stellar
// network. The rest of the program sees ledgers and payments of package domain only.
//
//   - ledger turns the bytes of a closed ledger into payments: payments.go, contract.go.
//   - source reads closed ledgers from Stellar RPC (rpc) or files (lake).
//   - devnet is a Stellar network for development, in one process.
//   - oracle compares ledger with the Stellar SDK's own extraction, in tests.
package stellar
