package source

import "context"

// Accounts asks a server what accounts hold.
type Accounts interface {
	// Holdings returns what an account held after the server's newest ledger: of these balances,
	// named as domain.BalanceMove names them, and of others where the server tells. All are of that
	// one ledger. A server of another network is a domain.ErrWrongNetwork.
	Holdings(ctx context.Context, wallet string, balances []string) (Holdings, error)
}

// Holdings are the balances of an account after a ledger.
type Holdings struct {
	Ledger  uint32
	Exists  bool             // the account is in the ledger
	Stroops map[string]int64 // by name; a balance that is not there holds 0
}
