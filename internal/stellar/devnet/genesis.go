package devnet

import (
	"fmt"
	"math"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Ledger 1 is the network's beginning: the root account with all lumens, and no transaction
// that tells of it; as on every Stellar network it is not served. Ledger 2, the first that is,
// sets up the accounts by real transactions, so that a reader that starts there knows every
// account but the root from changes.
const (
	totalStroops = 100_000_000_000 * stroopsPerUnit

	payerLumens     = "1000000000"
	issuerLumens    = "1000000000"
	friendbotLumens = "50000000000"
	payerDemoAsset  = "10000000000"
)

// rootState is the state after ledger 1.
type rootState struct {
	key entryKey
	row *xdr.LedgerEntry
}

func (r rootState) load(key entryKey) *xdr.LedgerEntry {
	if key == r.key {
		return r.row
	}
	return nil
}

func (rootState) offers() []entryKey { return nil }

// genesis builds ledger 2 on ledger 1.
func genesis(cfg Config) (*closedLedger, error) {
	root := keypair.Root(cfg.Passphrase)
	rootID := xdr.MustAddress(root.Address())
	closeTime := cfg.Clock().Unix()
	start := newLayer(rootState{}, 1)
	start.createAccount(rootID, totalStroops, 0)
	first, err := hashHeader(xdr.LedgerHeader{
		LedgerVersion:  ProtocolVersion,
		LedgerSeq:      1,
		ScpValue:       xdr.StellarValue{CloseTime: xdr.TimePoint(closeTime)},
		TotalCoins:     totalStroops,
		BaseFee:        BaseFeeStroops,
		BaseReserve:    BaseReserveStroops,
		MaxTxSetSize:   xdr.Uint32(cfg.MaxPendingOperations),
		BucketListHash: chainState(xdr.Hash{}, nil),
	})
	if err != nil {
		return nil, err
	}
	setup, err := setupTransactions(cfg)
	if err != nil {
		return nil, err
	}
	base := rootState{key: accountKey(rootID), row: start.load(accountKey(rootID))}
	l, err := buildLedger(base, cfg.rules(), first, setup, closeTime)
	if err != nil {
		return nil, err
	}
	if len(l.transactions) != len(setup) {
		return nil, fmt.Errorf("set up the development network: %d of %d transactions were valid",
			len(l.transactions), len(setup))
	}
	for _, tx := range l.transactions {
		if !tx.success {
			return nil, fmt.Errorf("set up the development network: transaction %x failed", tx.hash)
		}
	}
	return l, nil
}

// setupTransactions makes the accounts, and has the payer trust the issuer and receive the demo
// asset: one transaction of the root, with operations in the other accounts' names.
func setupTransactions(cfg Config) ([]*transaction, error) {
	root, payer, issuer, err := parseSetupKeys(cfg)
	if err != nil {
		return nil, err
	}
	demo := txnbuild.CreditAsset{Code: DemoAssetCode, Issuer: issuer.Address()}
	tx, err := signedTransaction(cfg.Passphrase, root, 1, append([]txnbuild.Operation{
		&txnbuild.CreateAccount{Destination: payer.Address(), Amount: payerLumens},
		&txnbuild.CreateAccount{Destination: issuer.Address(), Amount: issuerLumens},
		&txnbuild.CreateAccount{Destination: cfg.Identities.FriendbotAddress(), Amount: friendbotLumens},
		&txnbuild.ChangeTrust{
			SourceAccount: payer.Address(),
			Line:          txnbuild.ChangeTrustAssetWrapper{Asset: demo},
			Limit:         maxAmount,
		},
		&txnbuild.Payment{
			SourceAccount: issuer.Address(),
			Destination:   payer.Address(),
			Asset:         demo,
			Amount:        payerDemoAsset,
		},
	}, marketOperations(issuer.Address())...), payer, issuer)
	if err != nil {
		return nil, fmt.Errorf("set up the development network: %w", err)
	}
	return []*transaction{tx}, nil
}

// marketOperations make the market of the demo asset. Its offers are passive, so that they do
// not take each other at the one rate.
func marketOperations(issuer string) []txnbuild.Operation {
	demo, lumens := txnbuild.CreditAsset{Code: DemoAssetCode, Issuer: issuer}, txnbuild.NativeAsset{}
	return []txnbuild.Operation{
		&txnbuild.CreatePassiveSellOffer{
			SourceAccount: issuer,
			Selling:       demo,
			Buying:        lumens,
			Amount:        marketDemo,
			Price:         xdr.Price{N: MarketLumensPerDemo, D: 1},
		},
		&txnbuild.CreatePassiveSellOffer{
			SourceAccount: issuer,
			Selling:       lumens,
			Buying:        demo,
			Amount:        marketLumens,
			Price:         xdr.Price{N: 1, D: MarketLumensPerDemo},
		},
	}
}

var maxAmount = fmt.Sprintf("%d.%07d", int64(math.MaxInt64)/stroopsPerUnit,
	int64(math.MaxInt64)%stroopsPerUnit)

func parseSetupKeys(cfg Config) (root, payer, issuer *keypair.Full, err error) {
	if payer, err = keypair.ParseFull(cfg.Identities.PayerSeed); err != nil {
		return nil, nil, nil, fmt.Errorf("identity payerSeed: %w", err)
	}
	if issuer, err = keypair.ParseFull(cfg.Identities.IssuerSeed); err != nil {
		return nil, nil, nil, fmt.Errorf("identity issuerSeed: %w", err)
	}
	return keypair.Root(cfg.Passphrase), payer, issuer, nil
}

// signedTransaction builds one of the network's own transactions.
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
