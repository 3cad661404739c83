package devnet

import (
	"errors"
	"fmt"
	"net/http"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

const friendbotGrant = "10000"

// friendbotAnswer contains the fields of a Horizon transaction that friendbot's clients read.
type friendbotAnswer struct {
	ID            string `json:"id"`
	Hash          string `json:"hash"`
	Successful    bool   `json:"successful"`
	Ledger        uint32 `json:"ledger"`
	SourceAccount string `json:"source_account"`
	EnvelopeXDR   string `json:"envelope_xdr"`
	ResultXDR     string `json:"result_xdr"`
	ResultMetaXDR string `json:"result_meta_xdr"`
}

type friendbotProblem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (p *friendbotProblem) Error() string { return p.Detail }

func refuse(status int, kind, detail string) error {
	return &friendbotProblem{
		Type:   "https://stellar.org/horizon-errors/" + kind,
		Title:  http.StatusText(status),
		Status: status,
		Detail: detail,
	}
}

func unavailable(detail string) error {
	return refuse(http.StatusServiceUnavailable, "server_error", detail)
}

var errAlreadyFunded = refuse(http.StatusBadRequest, "bad_request",
	"account already funded to starting balance (createAccountAlreadyExist)")

// serveFriendbot funds the account addr. It responds when the ledger with the account has closed.
func (n *Network) serveFriendbot(w http.ResponseWriter, r *http.Request) {
	tx, err := n.grant(r)
	problem := new(friendbotProblem)
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, friendbotAnswer{
			ID:            tx.TransactionHash,
			Hash:          tx.TransactionHash,
			Successful:    true,
			Ledger:        tx.Ledger,
			SourceAccount: n.bot.Address(),
			EnvelopeXDR:   tx.EnvelopeXDR,
			ResultXDR:     tx.ResultXDR,
			ResultMetaXDR: tx.ResultMetaXDR,
		})
	case errors.As(err, &problem):
		writeJSON(w, problem.Status, problem)
	default:
		n.cfg.Logger.Error("friendbot failed", "err", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (n *Network) grant(r *http.Request) (tx protocol.TransactionInfo, err error) {
	address := r.FormValue("addr")
	if !strkey.IsValidEd25519PublicKey(address) {
		return tx, refuse(http.StatusBadRequest, "bad_request",
			"addr must be the public address of an account: G and 55 more characters")
	}
	sent, closed, hash, err := n.sendGrant(address)
	switch {
	case err != nil:
		return tx, err
	case sent.status == statusTryAgainLater:
		return tx, unavailable("the next ledger is full: try again")
	case sent.status == statusError:
		return tx, fmt.Errorf("friendbot's transaction was refused with %s", sent.result.Result.Code)
	}
	select {
	case <-closed:
	case <-r.Context().Done():
		return tx, unavailable("the development network stopped, or the request was cancelled, " +
			"before the ledger closed")
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if errors.Is(n.broken, errClosed) {
		return tx, errClosed
	}
	tx, ok, err := n.store.transaction(hash)
	switch {
	case err == nil && !ok:
		err = unavailable("friendbot's transaction did not get into the ledger: try again")
	case err == nil && tx.Status != protocol.TransactionStatusSuccess:
		err = errAlreadyFunded // by another transaction in the same ledger
	}
	return tx, err
}

// sendGrant submits the transaction. It returns the channel that is closed when its ledger closes.
func (n *Network) sendGrant(
	address string,
) (sent submission, closed <-chan struct{}, hash string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if account(n.state, xdr.MustAddress(address)) != nil {
		return sent, nil, "", errAlreadyFunded
	}
	bot := xdr.MustAddress(n.bot.Address())
	last, queued := n.pending.seqNums[accountKey(bot)]
	if !queued {
		last = int64(account(n.state, bot).SeqNum)
	}
	tx, err := signedTransaction(n.cfg.Passphrase, n.bot, last+1, []txnbuild.Operation{
		&txnbuild.CreateAccount{Destination: address, Amount: friendbotGrant},
	})
	if err != nil {
		return sent, nil, "", fmt.Errorf("build friendbot's transaction: %w", err)
	}
	sent, err = n.submitLocked(tx)
	return sent, n.closed, tx.hash.HexString(), err
}
