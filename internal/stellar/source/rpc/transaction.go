package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

const transactionTimeout = 10 * time.Second

// Transactions looks up transactions by hash. It is safe for concurrent use.
type Transactions struct {
	servers []Config
	ledger  *ledger.Extractor
}

// NewTransactions returns a Transactions for the servers of a network. If one server doesn't know a
// transaction, the next one is queried.
func NewTransactions(passphrase string, servers []Config) (*Transactions, error) {
	extractor, err := ledger.NewExtractor(passphrase)
	if err != nil {
		return nil, err
	}
	return &Transactions{servers, extractor}, nil
}

// Transaction returns a transaction with the payments in its ledger, which is not checked against
// other ledgers. If no server knows the hash, it returns domain.ErrNoTransaction.
func (t *Transactions) Transaction(
	ctx context.Context, hash string,
) (found domain.Transaction, err error) {
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	for _, server := range t.servers {
		found, failed := t.find(ctx, server, hash)
		if failed == nil {
			return found, nil
		}
		if err == nil || !errors.Is(failed, domain.ErrNoTransaction) {
			err = failed // a server that didn't respond may know the hash
		}
	}
	return domain.Transaction{}, err
}

func (t *Transactions) find(
	ctx context.Context, server Config, hash string,
) (found domain.Transaction, err error) {
	s, err := New(server)
	if err != nil {
		return found, err
	}
	var got protocol.GetTransactionResponse
	err = s.call(ctx, protocol.GetTransactionMethodName, protocol.GetTransactionRequest{Hash: hash},
		&got, answerSizeBytesMax)
	switch {
	case err != nil:
		return found, err
	case got.Status == protocol.TransactionStatusNotFound:
		return found, domain.ErrNoTransaction
	}
	found.Ledger, found.ClosedAtMillis = got.Ledger, time.Unix(got.LedgerCloseTime, 0).UnixMilli()
	if got.Status == protocol.TransactionStatusFailed {
		found.Failed = true
		return found, nil
	}
	page, err := s.Look(ctx, got.Ledger)
	if err != nil {
		return found, err
	}
	if len(page) == 0 || page[0].Sequence != got.Ledger {
		return found, fmt.Errorf("the Stellar RPC at %s does not return ledger %d", s.host, got.Ledger)
	}
	read, err := t.ledger.Extract(page[0].XDR)
	for _, p := range read.Payments {
		if p.TxHash == hash && !p.IsSelfPayment() {
			found.Payments = append(found.Payments, p)
		}
	}
	return found, err
}
