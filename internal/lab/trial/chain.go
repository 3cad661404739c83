package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/stellar/go-stellar-sdk/clients/rpcclient"
	"github.com/stellar/go-stellar-sdk/keypair"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/txnbuild"
)

// chain is the devnet as any client of Stellar RPC sees it. A transaction is sent repeatedly until
// it is in a ledger, even across kills.
type chain struct{ w *world }

func (c chain) rpc(ctx context.Context) (*rpcclient.Client, runInfo, error) {
	info, err := c.w.service.await(ctx)
	if err != nil {
		return nil, info, err
	}
	return rpcclient.NewClient(info.Stellar.RPCURL, httpClient), info, nil
}

func (c chain) until(ctx context.Context, what string,
	try func(*rpcclient.Client, runInfo) error) error {
	var last error
	for end := time.Now().Add(answerWait); time.Now().Before(end); {
		rpc, info, err := c.rpc(ctx)
		if err != nil {
			return err
		}
		last = try(rpc, info)
		_ = rpc.Close()
		if last == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("trial: %s: %w", what, last)
}

func (c chain) latest(ctx context.Context) (sequence uint32, err error) {
	err = c.until(ctx, "asking for the latest ledger", func(rpc *rpcclient.Client, _ runInfo) error {
		answer, err := rpc.GetLatestLedger(ctx)
		sequence = answer.Sequence + c.w.base.Load()
		return err
	})
	return sequence, err
}

func (c chain) fund(ctx context.Context, address string) error {
	return c.until(ctx, "asking friendbot", func(rpc *rpcclient.Client, info runInfo) error {
		if _, err := rpc.LoadAccount(ctx, address); err == nil {
			return nil
		}
		at := info.Stellar.FriendbotURL + "?addr=" + url.QueryEscape(address)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return err
		}
		resp, err := httpClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%d: %s", resp.StatusCode, text)
		}
		return err
	})
}

type envelope struct{ text, hash string }

func (c chain) signed(
	ctx context.Context, from *keypair.Full, memo txnbuild.Memo, ops []txnbuild.Operation,
) (e envelope, err error) {
	err = c.until(ctx, "building a transaction", func(rpc *rpcclient.Client, info runInfo) error {
		account, err := rpc.LoadAccount(ctx, from.Address())
		if err != nil {
			return err
		}
		tx, err := txnbuild.NewTransaction(txnbuild.TransactionParams{
			SourceAccount:        account,
			IncrementSequenceNum: true,
			Operations:           ops,
			Memo:                 memo,
			BaseFee:              txnbuild.MinBaseFee,
			Preconditions:        txnbuild.Preconditions{TimeBounds: txnbuild.NewInfiniteTimeout()},
		})
		if err != nil {
			return err
		}
		if tx, err = tx.Sign(info.Stellar.Passphrase, from); err != nil {
			return err
		}
		if e.hash, err = tx.HashHex(info.Stellar.Passphrase); err == nil {
			e.text, err = tx.Base64()
		}
		return err
	})
	return e, err
}

func (c chain) mine(
	ctx context.Context, e envelope,
) (got protocol.GetTransactionResponse, err error) {
	err = c.until(ctx, "waiting for transaction "+e.hash,
		func(rpc *rpcclient.Client, _ runInfo) error {
			sent, err := rpc.SendTransaction(ctx, protocol.SendTransactionRequest{Transaction: e.text})
			if err != nil {
				return err
			}
			for range 100 { // 5 s; after that, it may have been lost with the queue
				got, err = rpc.GetTransaction(ctx, protocol.GetTransactionRequest{Hash: e.hash})
				if err != nil {
					return err
				}
				if got.Status != protocol.TransactionStatusNotFound {
					got.Ledger += c.w.base.Load()
					return nil
				}
				if sent.Status == "TRY_AGAIN_LATER" {
					break
				}
				if sent.Status == "ERROR" {
					return errors.New("refused: " + sent.ErrorResultXDR)
				}
				time.Sleep(50 * time.Millisecond)
			}
			return errors.New("no ledger has it: " + sent.Status)
		})
	return got, err
}
