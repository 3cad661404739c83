package devclient

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	requestTimeout = 90 * time.Second // friendbot responds after the ledger closes
	ledgerTimeout  = 5 * time.Minute  // until a transaction is in a ledger

	firstPoll = 20 * time.Millisecond
	maxPoll   = 250 * time.Millisecond

	// maxGuesses is how many sequence numbers are tried before the ledger is queried again. maxTries
	// is the maximum number of attempts per submission.
	maxGuesses = 256
	maxTries   = 4096

	maxConns          = 128
	maxFriendbotBytes = 256 << 10
)

// Client is a client of one devnet. It is safe for concurrent use.
type Client struct {
	rpc          *rpcclient.Client
	http         *http.Client
	friendbotURL string

	mu      sync.Mutex
	sources map[string]*source
}

type source struct {
	mu   sync.Mutex // locked while a transaction is submitted, but not until its ledger closes
	next int64      // next sequence number; 0: query the ledger
}

// New returns a client. Without a friendbot URL, it can't create accounts.
func New(rpcURL, friendbotURL string) (*Client, error) {
	if u, err := url.Parse(rpcURL); err != nil || u.Host == "" {
		return nil, fmt.Errorf("RPC URL %q is not a URL such as http://127.0.0.1:8000", rpcURL)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // a devnet is never behind a proxy
	transport.MaxIdleConnsPerHost = maxConns
	transport.MaxConnsPerHost = maxConns // shared by thousands of concurrent payments
	client := &http.Client{Transport: transport, Timeout: requestTimeout}
	return &Client{
		rpc:          rpcclient.NewClient(rpcURL, client),
		http:         client,
		friendbotURL: friendbotURL,
		sources:      map[string]*source{},
	}, nil
}

// Close closes the connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return c.rpc.Close()
}

// Fund has friendbot create an account with 10,000 XLM. It returns after the ledger has closed.
func (c *Client) Fund(ctx context.Context, address string) error {
	u := c.friendbotURL + "?" + url.Values{"addr": {address}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("cannot fund %s (is the development network running?): %w", address, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFriendbotBytes))
	if err != nil || resp.StatusCode == http.StatusOK {
		return err
	}
	problem := struct {
		Detail string `json:"detail"`
	}{"no reason given"}
	_ = json.Unmarshal(body, &problem)
	return fmt.Errorf("friendbot did not fund %s (%s): %s", address, resp.Status, problem.Detail)
}

// NextLedger waits until another ledger closes, but at most 3 s. By then, Lumenhook has read the
// ledger that funded a wallet, so a new watch doesn't report the funding.
func (c *Client) NextLedger(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var first uint32
	for {
		latest, err := c.rpc.GetHealth(ctx)
		switch {
		case err != nil: // a loaded network may refuse a request
		case first == 0:
			first = latest.LatestLedger
		case latest.LatestLedger > first:
			return nil
		}
		if pause(ctx, firstPoll) == nil {
			continue
		}
		if first > 0 {
			return nil // ledgers close slowly, so there is enough time
		}
		return err
	}
}

// Execute submits operations as one transaction of the first signer's account, and waits for its
// ledger. It returns an error if the transaction failed.
func (c *Client) Execute(
	ctx context.Context, signers []*keypair.Full, memo txnbuild.Memo, ops ...txnbuild.Operation,
) (protocol.GetTransactionResponse, error) {
	hash, err := c.submit(ctx, signers, memo, ops)
	if err != nil {
		return protocol.GetTransactionResponse{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	poll := rpcclient.NewPollTransactionOptions().WithInitialInterval(firstPoll).
		WithMaxInterval(maxPoll)
	answer, err := c.rpc.PollTransactionWithOptions(ctx, hash, poll)
	switch {
	case err != nil:
		return answer, fmt.Errorf("wait for transaction %s (it may still get into a ledger): %w", hash,
			err)
	case answer.Status == protocol.TransactionStatusFailed:
		return answer, fmt.Errorf("transaction %s failed in ledger %d: %s", hash, answer.Ledger,
			inWords(answer.ResultXDR))
	}
	return answer, nil
}

// submit tries sequence numbers until the network accepts one. It returns the transaction's hash.
func (c *Client) submit(
	ctx context.Context, signers []*keypair.Full, memo txnbuild.Memo, ops []txnbuild.Operation,
) (hash string, err error) {
	network, err := c.rpc.GetNetwork(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot reach the development network (is it running?): %w", err)
	}
	address := signers[0].Address()
	c.mu.Lock()
	s := c.sources[address]
	if s == nil {
		s = &source{}
		c.sources[address] = s
	}
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	remembered, guesses := s.next != 0, 0
	for range maxTries {
		if s.next == 0 {
			if s.next, err = c.ledgerSequence(ctx, address); err != nil {
				return "", err
			}
		}
		tx, err := build(network.Passphrase, signers, s.next, memo, ops)
		if err != nil {
			return "", err
		}
		answer, err := c.rpc.SendTransaction(ctx, protocol.SendTransactionRequest{Transaction: tx})
		if err != nil {
			s.next = 0
			return "", fmt.Errorf("submit the transaction: %w", err)
		}
		switch {
		case answer.Status == "PENDING":
			s.next++
			return answer.Hash, nil
		case answer.Status == "TRY_AGAIN_LATER":
			err = pause(ctx, maxPoll)
		case answer.Status == "DUPLICATE":
			s.next++ // another sender has made an identical payment; this is a second one
		case !isBadSequence(answer.ErrorResultXDR):
			return "", fmt.Errorf("the network refused the transaction: %s",
				inWords(answer.ErrorResultXDR))
		case remembered:
			s.next, remembered = 0, false // it is out of date
		case guesses < maxGuesses: // other transactions are in the queue
			s.next++
			guesses++
		default:
			s.next, guesses = 0, 0
			err = pause(ctx, maxPoll)
		}
		if err != nil {
			return "", fmt.Errorf("submit the transaction: %w", err)
		}
	}
	return "", fmt.Errorf("submit the transaction: %d sequence numbers of account %s were used by "+
		"others: try again", maxTries, address)
}

func (c *Client) ledgerSequence(ctx context.Context, address string) (int64, error) {
	account, err := c.rpc.LoadAccount(ctx, address)
	if err != nil {
		return 0, fmt.Errorf("find account %s on the development network "+
			"(fund it by friendbot first): %w", address, err)
	}
	seqNum, err := account.GetSequenceNumber()
	return seqNum + 1, err
}

func build(
	passphrase string, signers []*keypair.Full, seqNum int64, memo txnbuild.Memo,
	ops []txnbuild.Operation,
) (string, error) {
	tx, err := txnbuild.NewTransaction(txnbuild.TransactionParams{
		SourceAccount: &txnbuild.SimpleAccount{AccountID: signers[0].Address(), Sequence: seqNum},
		Operations:    ops,
		BaseFee:       txnbuild.MinBaseFee,
		Memo:          memo,
		Preconditions: txnbuild.Preconditions{TimeBounds: txnbuild.NewInfiniteTimeout()},
	})
	if err == nil {
		tx, err = tx.Sign(passphrase, signers...)
	}
	if err != nil {
		return "", fmt.Errorf("build the transaction: %w", err)
	}
	return tx.Base64()
}

func isBadSequence(resultXDR string) bool {
	var result xdr.TransactionResult
	return xdr.SafeUnmarshalBase64(resultXDR, &result) == nil &&
		result.Result.Code == xdr.TransactionResultCodeTxBadSeq
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
