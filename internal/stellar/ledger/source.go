package ledger

import "context"

// Source is where ledgers come from; the packages below this one are such. It is
// used by one goroutine at a time.
type Source interface {
	// Check asks whether the source serves the network; if it serves another,
	// the error is an ErrWrongNetwork.
	Check(ctx context.Context) error
	// Latest is the sequence of the newest ledger.
	Latest(ctx context.Context) (uint32, error)
	// Continue says which ledger was read last: the next must name its hash as
	// the one before it. An empty hash takes any.
	Continue(sequence uint32, hash string)
	// Next waits for a ledger and answers with it and those after it that are
	// there too. It fails only for what waiting does not mend (see IsFinal).
	Next(ctx context.Context, sequence uint32) ([]Raw, error)
}
