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
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Asset is an asset as events name it; the native one has no issuer.
type Asset struct{ Code, Issuer string }

func (a Asset) view() map[string]any {
	if a.Issuer == "" {
		return map[string]any{"code": a.Code, "issuer": nil}
	}
	return map[string]any{"code": a.Code, "issuer": a.Issuer}
}

func (a Asset) build() txnbuild.Asset {
	if a.Issuer == "" {
		return txnbuild.NativeAsset{}
	}
	return txnbuild.CreditAsset{Code: a.Code, Issuer: a.Issuer}
}

// chain is the development network as any client of Stellar RPC sees it. A transaction is
// sent again until it is in a ledger, also after kills.
type chain struct{ w *world }

func (c chain) rpc(ctx context.Context) (*rpcclient.Client, runInfo, error) {
	info, err := c.w.service.await(ctx)
	if err != nil {
		return nil, info, err
	}
	return rpcclient.NewClient(info.Stellar.RPCURL, httpClient), info, nil
}

// until repeats an action that may fail because the program is down.
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

// latest returns the sequence of the latest closed ledger.
func (c chain) latest(ctx context.Context) (sequence uint32, err error) {
	err = c.until(ctx, "asking for the latest ledger", func(rpc *rpcclient.Client, _ runInfo) error {
		answer, err := rpc.GetLatestLedger(ctx)
		sequence = answer.Sequence
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

// envelope is a signed transaction.
type envelope struct{ text, hash string }

// signed builds the next transaction of an account. With a bumper it is wrapped in a fee
// bump that the bumper pays.
func (c chain) signed(
	ctx context.Context, from *keypair.Full, memo txnbuild.Memo, others []*keypair.Full,
	bumper *keypair.Full, ops []txnbuild.Operation,
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
		passphrase := info.Stellar.Passphrase
		if tx, err = tx.Sign(passphrase, append(others, from)...); err != nil {
			return err
		}
		if bumper == nil {
			e.hash, err = tx.HashHex(passphrase)
			if err == nil {
				e.text, err = tx.Base64()
			}
			return err
		}
		return e.bump(tx, bumper, passphrase)
	})
	return e, err
}

func (e *envelope) bump(inner *txnbuild.Transaction, by *keypair.Full, passphrase string) error {
	tx, err := txnbuild.NewFeeBumpTransaction(txnbuild.FeeBumpTransactionParams{
		Inner:      inner,
		FeeAccount: by.Address(),
		BaseFee:    2 * txnbuild.MinBaseFee,
	})
	if err != nil {
		return err
	}
	if tx, err = tx.Sign(passphrase, by); err != nil {
		return err
	}
	if e.hash, err = tx.HashHex(passphrase); err == nil {
		e.text, err = tx.Base64()
	}
	return err
}

// mine sends a transaction until a ledger holds it.
func (c chain) mine(
	ctx context.Context, e envelope,
) (got protocol.GetTransactionResponse, err error) {
	err = c.until(ctx, "waiting for transaction "+e.hash,
		func(rpc *rpcclient.Client, _ runInfo) error {
			sent, err := rpc.SendTransaction(ctx, protocol.SendTransactionRequest{Transaction: e.text})
			if err != nil {
				return err
			}
			for range 100 { // 5 s; then it may have been lost with the queue
				got, err = rpc.GetTransaction(ctx, protocol.GetTransactionRequest{Hash: e.hash})
				if err != nil {
					return err
				}
				if got.Status != protocol.TransactionStatusNotFound {
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

// asContract makes a transfer by the contract of an asset.
func asContract(
	passphrase string, from *keypair.Full, asset Asset, to string, muxed *uint64, stroops int64,
) (txnbuild.Operation, error) {
	known, err := asset.build().ToXDR()
	if err != nil {
		return nil, err
	}
	id, err := known.ContractID(passphrase)
	if err != nil {
		return nil, err
	}
	contract := xdr.ContractId(id)
	amount := xdr.ScVal{Type: xdr.ScValTypeScvI128,
		I128: &xdr.Int128Parts{Lo: xdr.Uint64(stroops)}} // #nosec G115
	return &txnbuild.InvokeHostFunction{
		HostFunction: xdr.HostFunction{
			Type: xdr.HostFunctionTypeHostFunctionTypeInvokeContract,
			InvokeContract: &xdr.InvokeContractArgs{
				ContractAddress: xdr.ScAddress{
					Type:       xdr.ScAddressTypeScAddressTypeContract,
					ContractId: &contract,
				},
				FunctionName: "transfer",
				Args:         xdr.ScVec{scAddress(from.Address(), nil), scAddress(to, muxed), amount},
			},
		},
		Ext: xdr.TransactionExt{V: 1, SorobanData: &xdr.SorobanTransactionData{ResourceFee: 1000}},
	}, nil
}

func scAddress(account string, muxed *uint64) xdr.ScVal {
	id := xdr.MustAddress(account)
	a := xdr.ScAddress{Type: xdr.ScAddressTypeScAddressTypeAccount, AccountId: &id}
	if muxed != nil {
		a = xdr.ScAddress{
			Type:         xdr.ScAddressTypeScAddressTypeMuxedAccount,
			MuxedAccount: &xdr.MuxedEd25519Account{Id: xdr.Uint64(*muxed), Ed25519: *id.Ed25519},
		}
	}
	return xdr.ScVal{Type: xdr.ScValTypeScvAddress, Address: &a}
}
