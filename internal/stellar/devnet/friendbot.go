package devnet

import (
	"encoding/base64"
	"fmt"
	"net/http"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/cockroachdb/pebble/v2"
)

// friendbotGrant is what friendbot gives a new account.
const friendbotGrant = "10000"

// friendbotAnswer has the fields of a Horizon transaction that clients of friendbot read.
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

// friendbotProblem is Horizon's form of an error.
type friendbotProblem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func friendbotFault(w http.ResponseWriter, status int, detail string) {
	kind := "server_error"
	if status == http.StatusBadRequest {
		kind = "bad_request"
	}
	writeJSON(w, status, friendbotProblem{
		Type:   "https://stellar.org/horizon-errors/" + kind,
		Title:  http.StatusText(status),
		Status: status,
		Detail: detail,
	})
}

// serveFriendbot funds ?addr=G… (or the form field of that name) and answers when the ledger
// that holds the new account is closed.
func (n *Network) serveFriendbot(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "friendbot: use GET or POST with addr=G…", http.StatusMethodNotAllowed)
		return
	}
	address := r.FormValue("addr")
	if !strkey.IsValidEd25519PublicKey(address) {
		friendbotFault(w, http.StatusBadRequest,
			"addr must be the public address of an account: G and 55 more characters")
		return
	}
	sent, closed, tx, err := n.grant(address)
	switch {
	case err != nil:
		n.cfg.Logger.Error("friendbot failed", "err", err)
		friendbotFault(w, http.StatusInternalServerError, err.Error())
		return
	case sent.status == statusTryAgainLater:
		w.Header().Set("Retry-After", "1")
		friendbotFault(w, http.StatusServiceUnavailable, "the next ledger is full: try again")
		return
	case sent.status == statusError:
		friendbotFault(w, http.StatusInternalServerError,
			fmt.Sprintf("friendbot's transaction was refused with %s", sent.result.Result.Code))
		return
	case sent.status == statusDuplicate: // it exists already
		friendbotFault(w, http.StatusBadRequest, alreadyFunded)
		return
	}
	select {
	case <-closed:
		n.answerGrant(w, tx.hash)
	case <-r.Context().Done():
		friendbotFault(w, http.StatusServiceUnavailable,
			"the development network stopped, or the request was given up, before the ledger closed")
	}
}

const alreadyFunded = "account already funded to starting balance (createAccountAlreadyExist)"

// grant submits the transaction, and returns the channel that is closed with its ledger. An
// account that exists is answered statusDuplicate without spending a transaction on it.
func (n *Network) grant(address string) (submission, <-chan struct{}, *transaction, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken != nil {
		return submission{}, nil, nil, n.broken
	}
	existing, err := readEntry(n.store.db, accountKey(xdr.MustAddress(address)))
	if err != nil {
		return submission{}, nil, nil, err
	}
	if existing != nil {
		return submission{status: statusDuplicate}, nil, nil, nil
	}
	seqNum, err := n.nextSeqNum(xdr.MustAddress(n.bot.Address()))
	if err != nil {
		return submission{}, nil, nil, err
	}
	tx, err := signedTransaction(n.cfg.Passphrase, n.bot, seqNum, []txnbuild.Operation{
		&txnbuild.CreateAccount{Destination: address, Amount: friendbotGrant},
	})
	if err != nil {
		return submission{}, nil, nil, fmt.Errorf("build friendbot's transaction: %w", err)
	}
	sent, err := n.submitLocked(tx)
	return sent, n.closed, tx, err
}

func (n *Network) answerGrant(w http.ResponseWriter, hash xdr.Hash) {
	var tx *txRecord
	err := n.read(func(_ tip, r pebble.Reader) (err error) {
		tx, err = readTx(r, hash)
		return err
	})
	switch {
	case err != nil:
		friendbotFault(w, http.StatusInternalServerError, err.Error())
	case tx == nil:
		friendbotFault(w, http.StatusServiceUnavailable,
			"friendbot's transaction did not get into the ledger: try again")
	case !tx.success: // somebody else made the account in the same ledger
		friendbotFault(w, http.StatusBadRequest, alreadyFunded)
	default:
		writeJSON(w, http.StatusOK, friendbotAnswer{
			ID:            hash.HexString(),
			Hash:          hash.HexString(),
			Successful:    true,
			Ledger:        tx.ledger,
			SourceAccount: n.bot.Address(),
			EnvelopeXDR:   base64.StdEncoding.EncodeToString(tx.envelope),
			ResultXDR:     base64.StdEncoding.EncodeToString(tx.result),
			ResultMetaXDR: base64.StdEncoding.EncodeToString(tx.meta),
		})
	}
}
