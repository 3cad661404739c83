package devnet

import (
	"fmt"

	"github.com/stellar/go-stellar-sdk/amount"
	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Ledger 1 contains only the root account with all lumens and, as on every Stellar network, is not
// served. Ledger 2 creates the accounts with a real transaction, so that a reader that starts there
// learns about all accounts except the root account from changes.
const (
	totalStroops = 100_000_000_000 * stroopsPerUnit

	payerLumens     = "1000000000"
	issuerLumens    = "1000000000" // used by the market
	friendbotLumens = "50000000000"
	payerDemoAsset  = "10000000000"
)

// genesis builds ledger 2 and returns the state after ledger 1.
func genesis(cfg Config) (entries, *closedLedger, error) {
	root := keypair.Root(cfg.Passphrase)
	now := cfg.Clock().Unix()
	header := xdr.LedgerHeader{
		LedgerVersion:  ProtocolVersion,
		LedgerSeq:      1,
		ScpValue:       xdr.StellarValue{CloseTime: xdr.TimePoint(now)},
		TotalCoins:     totalStroops,
		BaseFee:        BaseFeeStroops,
		BaseReserve:    BaseReserveStroops,
		MaxTxSetSize:   xdr.Uint32(cfg.MaxPendingOperations),
		BucketListHash: chainState(xdr.Hash{}, nil),
	}
	first := entries{}
	start := newLayer(first, &closing{sequence: 1})
	start.createAccount(xdr.MustAddress(root.Address()), totalStroops, 0)
	first.merge(start.rows)
	setup, err := setupTransaction(cfg, root)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the development network: %w", err)
	}
	l := buildLedger(first, newClosing(cfg, 2, now),
		xdr.LedgerHeaderHistoryEntry{Hash: hashOf(header), Header: header}, []*transaction{setup})
	if len(l.transactions) != 1 || l.transactions[0].Status != "SUCCESS" {
		return nil, nil, fmt.Errorf("set up the development network: %+v", l.transactions)
	}
	return first, l, nil
}

// setupTransaction creates the accounts. The payer trusts the issuer and receives the demo asset.
func setupTransaction(cfg Config, root *keypair.Full) (*transaction, error) {
	payer := keypair.MustParseFull(cfg.Identities.PayerSeed) // validated with the configuration
	issuer := keypair.MustParseFull(cfg.Identities.IssuerSeed)
	demo := txnbuild.CreditAsset{Code: DemoAssetCode, Issuer: issuer.Address()}
	return signedTransaction(cfg.Passphrase, root, 1, []txnbuild.Operation{
		&txnbuild.CreateAccount{Destination: payer.Address(), Amount: payerLumens},
		&txnbuild.CreateAccount{Destination: issuer.Address(), Amount: issuerLumens},
		&txnbuild.CreateAccount{
			Destination: addressOf(cfg.Identities.FriendbotSeed),
			Amount:      friendbotLumens,
		},
		&txnbuild.ChangeTrust{
			SourceAccount: payer.Address(),
			Line:          txnbuild.ChangeTrustAssetWrapper{Asset: demo},
			Limit:         amount.StringFromInt64(unlimited),
		},
		&txnbuild.Payment{
			SourceAccount: issuer.Address(),
			Destination:   payer.Address(),
			Asset:         demo,
			Amount:        payerDemoAsset,
		},
	}, payer, issuer)
}

func signedTransaction(
	passphrase string, source *keypair.Full, seqNum int64, ops []txnbuild.Operation,
	others ...*keypair.Full,
) (*transaction, error) {
	tx, err := txnbuild.NewTransaction(txnbuild.TransactionParams{
		SourceAccount: &txnbuild.SimpleAccount{AccountID: source.Address(), Sequence: seqNum},
		Operations:    ops,
		BaseFee:       BaseFeeStroops,
		Preconditions: txnbuild.Preconditions{TimeBounds: txnbuild.NewInfiniteTimeout()},
	})
	if err != nil {
		return nil, err
	}
	if tx, err = tx.Sign(passphrase, append(others, source)...); err != nil {
		return nil, err
	}
	return newTransaction(tx.ToXDR(), passphrase)
}
