package devclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/stellar/go-stellar-sdk/clients/rpcclient"
	"github.com/stellar/go-stellar-sdk/keypair"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

const (
	requestTimeout = 90 * time.Second // friendbot answers after a ledger
	validFor       = 5 * time.Minute  // of a transaction, from its submission

	firstPoll = 20 * time.Millisecond
	maxPoll   = 250 * time.Millisecond

	// guessWindow is how many sequence numbers after the ledger's are tried before the ledger is
	// asked again; maxConflicts bounds the tries of one submission altogether.
	guessWindow  = 256
	maxConflicts = 4096

	maxConns   = 128
	maxSources = 1024 // accounts whose next sequence number is remembered
)

// Client talks to one development network. It is safe for concurrent use.
type Client struct {
	rpc          *rpcclient.Client
	http         *http.Client
	friendbotURL string

	mu         sync.Mutex
	passphrase string // learned from the network
	sources    map[string]*source
}

// source is an account that this client sends from.
type source struct {
	mu   sync.Mutex // held while a transaction is submitted, not while it is waited for
	next int64      // sequence number to use next; 0: ask the ledger
}

// New makes a client. friendbotURL may be "" when no account is to be funded.
func New(rpcURL, friendbotURL string) (*Client, error) {
	for _, field := range []struct{ name, value string }{
		{"RPC URL", rpcURL}, {"friendbot URL", friendbotURL},
	} {
		if field.name == "friendbot URL" && field.value == "" {
			continue
		}
		u, err := url.Parse(field.value)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%s %q is not a URL such as http://127.0.0.1:8000", field.name,
				field.value)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // the development network is never beyond a proxy
	transport.MaxIdleConnsPerHost = maxConns
	// thousands of payments at once share them and wait their turn
	transport.MaxConnsPerHost = maxConns
	client := &http.Client{Transport: transport, Timeout: requestTimeout}
	return &Client{
		rpc:          rpcclient.NewClient(rpcURL, client),
		http:         client,
		friendbotURL: friendbotURL,
		sources:      map[string]*source{},
	}, nil
}

// Close gives back the client's connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return c.rpc.Close()
}

func (c *Client) networkPassphrase(ctx context.Context) (string, error) {
	c.mu.Lock()
	known := c.passphrase
	c.mu.Unlock()
	if known != "" {
		return known, nil
	}
	answer, err := c.rpc.GetNetwork(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the development network for its name (is it running?): %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passphrase = answer.Passphrase
	return c.passphrase, nil
}

func (c *Client) source(address string) *source {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sources[address]
	if s == nil {
		if len(c.sources) >= maxSources {
			clear(c.sources) // forgetting costs one more question each
		}
		s = &source{}
		c.sources[address] = s
	}
	return s
}

// execute submits operations as one transaction and waits for the ledger that holds it. A
// transaction that failed there is an error.
func (c *Client) execute(
	ctx context.Context, from *keypair.Full, memo txnbuild.Memo, ops ...txnbuild.Operation,
) (protocol.GetTransactionResponse, error) {
	hash, validUntil, err := c.submit(ctx, from, memo, ops)
	if err != nil {
		return protocol.GetTransactionResponse{}, err
	}
	answer, err := c.await(ctx, hash, validUntil)
	if err != nil {
		return answer, err
	}
	if answer.Status == protocol.TransactionStatusFailed {
		return answer, fmt.Errorf("transaction %s failed in ledger %d: %s", hash, answer.Ledger,
			inWords(answer.ResultXDR))
	}
	return answer, nil
}

// submit finds the sequence number that the network takes and returns the hash of what it took.
func (c *Client) submit(
	ctx context.Context, from *keypair.Full, memo txnbuild.Memo, ops []txnbuild.Operation,
) (hash string, validUntil int64, err error) {
	passphrase, err := c.networkPassphrase(ctx)
	if err != nil {
		return "", 0, err
	}
	health, err := c.rpc.GetHealth(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("ask the development network for its time: %w", err)
	}
	validUntil = max(time.Now().Unix(), health.LatestLedgerCloseTime) + int64(validFor/time.Second)
	s := c.source(from.Address())
	s.mu.Lock()
	defer s.mu.Unlock()
	guesses := 0 // since the ledger was asked
	for range maxConflicts {
		if s.next == 0 {
			if s.next, err = c.ledgerSequence(ctx, from.Address()); err != nil {
				return "", 0, err
			}
			guesses = 0
		}
		tx, err := build(passphrase, from, s.next, validUntil, memo, ops)
		if err != nil {
			return "", 0, err
		}
		answer, err := c.rpc.SendTransaction(ctx, protocol.SendTransactionRequest{Transaction: tx})
		if err != nil {
			s.next = 0
			return "", 0, fmt.Errorf("submit the transaction: %w", err)
		}
		switch {
		case answer.Status == "PENDING":
			s.next++
			return answer.Hash, validUntil, nil
		case answer.Status == "TRY_AGAIN_LATER":
			if err := pause(ctx, maxPoll); err != nil {
				return "", 0, fmt.Errorf("submit the transaction: the network's queue stayed full: %w", err)
			}
		case answer.Status == "DUPLICATE":
			s.next++ // another sender made the very same payment; this one is a second
		case !isBadSequence(answer.ErrorResultXDR):
			return "", 0, fmt.Errorf("the network refused the transaction: %s",
				inWords(answer.ErrorResultXDR))
		default:
			if guesses, err = c.nextGuess(ctx, s, from.Address(), guesses); err != nil {
				return "", 0, err
			}
		}
	}
	return "", 0, fmt.Errorf("submit the transaction: account %s is so busy that %d sequence "+
		"numbers were taken by others: try again", from.Address(), maxConflicts)
}

// nextGuess moves on after a sequence number was refused. The first refusal means that the
// remembered number is stale: ask the ledger. After that others wait in the queue before us:
// try one number after the other, and when a whole window is taken, let a ledger close.
func (c *Client) nextGuess(
	ctx context.Context, s *source, address string, guesses int,
) (int, error) {
	switch {
	case guesses == 0:
		next, err := c.ledgerSequence(ctx, address)
		if err != nil {
			return 0, err
		}
		if next == s.next {
			next++ // refused a moment ago
		}
		s.next = next
	case guesses < guessWindow:
		s.next++
	default:
		s.next = 0
		return 0, pause(ctx, maxPoll)
	}
	return guesses + 1, nil
}

func (c *Client) ledgerSequence(ctx context.Context, address string) (int64, error) {
	account, err := c.rpc.LoadAccount(ctx, address)
	if err != nil {
		return 0, fmt.Errorf("find account %s on the development network "+
			"(fund it by friendbot first): %w",
			address, err)
	}
	seqNum, err := account.GetSequenceNumber()
	return seqNum + 1, err
}

func build(
	passphrase string, from *keypair.Full, seqNum, validUntil int64,
	memo txnbuild.Memo, ops []txnbuild.Operation,
) (string, error) {
	tx, err := txnbuild.NewTransaction(txnbuild.TransactionParams{
		SourceAccount: &txnbuild.SimpleAccount{AccountID: from.Address(), Sequence: seqNum},
		Operations:    ops,
		BaseFee:       txnbuild.MinBaseFee,
		Memo:          memo,
		Preconditions: txnbuild.Preconditions{TimeBounds: txnbuild.NewTimebounds(0, validUntil)},
	})
	if err != nil {
		return "", fmt.Errorf("build the transaction: %w", err)
	}
	if tx, err = tx.Sign(passphrase, from); err != nil {
		return "", fmt.Errorf("sign the transaction: %w", err)
	}
	return tx.Base64()
}

// await polls until the transaction is in a closed ledger.
func (c *Client) await(
	ctx context.Context, hash string, validUntil int64,
) (protocol.GetTransactionResponse, error) {
	for wait := firstPoll; ; wait = min(2*wait, maxPoll) {
		answer, err := c.rpc.GetTransaction(ctx, protocol.GetTransactionRequest{Hash: hash})
		switch {
		case err != nil:
			return answer, fmt.Errorf("wait for transaction %s (it may still get into a ledger): %w", hash,
				err)
		case answer.Status != protocol.TransactionStatusNotFound:
			return answer, nil
		case answer.LatestLedgerCloseTime > validUntil:
			return answer, fmt.Errorf("transaction %s expired before a ledger took it: nothing happened, "+
				"try again", hash)
		}
		if err := pause(ctx, wait); err != nil {
			return answer, fmt.Errorf("wait for transaction %s (it may still get into a ledger): %w", hash,
				err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func isBadSequence(resultXDR string) bool {
	var result xdr.TransactionResult
	return xdr.SafeUnmarshalBase64(resultXDR, &result) == nil &&
		result.Result.Code == xdr.TransactionResultCodeTxBadSeq
}

// parseSeed names the field and never the value: it is a secret, or somebody's mistake for one.
func parseSeed(field, seed string) (*keypair.Full, error) {
	pair, err := keypair.ParseFull(seed)
	if err != nil {
		return nil, errors.New(field + " is not a Stellar secret key: S and 55 more characters")
	}
	return pair, nil
}
