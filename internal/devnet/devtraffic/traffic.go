package devtraffic

import (
	"context"
	"errors"
	"fmt"

	"github.com/stellar/go-stellar-sdk/clients/rpcclient"
	"github.com/stellar/go-stellar-sdk/keypair"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
)

// Traffic sends transactions to one network. It is for one goroutine, which also closes the
// ledgers.
type Traffic struct {
	network *devnet.Network
	rpc     *rpcclient.Client
	payer   *keypair.Full
	issuer  *keypair.Full
	wallet  *keypair.Full // receives, and holds the demo asset
	spare   *keypair.Full // is created and merged away in turns; nil while it does not exist
	spareIn int           // the step that created it
	demo    txnbuild.CreditAsset
	next    map[string]int64 // sequence numbers
	balance string           // a claimable balance to claim
	round   uint64           // how often every kind was sent before: muxed ids begin at 0

	latest   uint32       // ledger
	lake     *lake.Writer // nil: none
	exported uint32       // the last ledger in the lake
}

var lumens = txnbuild.NativeAsset{}

// kinds are what steps do in turns.
var kinds = []func(*Traffic, context.Context, int) error{
	(*Traffic).payLumens, (*Traffic).payDemoMuxed, (*Traffic).strictReceive, (*Traffic).strictSend,
	(*Traffic).createAccount, (*Traffic).mergeAccount, (*Traffic).feeBump, (*Traffic).fail,
	(*Traffic).createClaimable, (*Traffic).claim, (*Traffic).contractTransfer,
	(*Traffic).contractMint, (*Traffic).contractBurn, (*Traffic).manyOperations,
	(*Traffic).twoHops,
}

// Kinds is the number of steps after which everything has been sent once.
var Kinds = len(kinds)

// New creates the wallet that is paid, in a ledger of its own.
func New(ctx context.Context, network *devnet.Network, ids devnet.Identities) (*Traffic, error) {
	t := &Traffic{
		network:  network,
		rpc:      rpcclient.NewClient(network.RPCURL(), nil),
		payer:    keypair.MustParseFull(ids.PayerSeed),
		issuer:   keypair.MustParseFull(ids.IssuerSeed),
		next:     map[string]int64{},
		exported: 1, // which no network serves
	}
	t.demo = txnbuild.CreditAsset{Code: devnet.DemoAssetCode, Issuer: t.issuer.Address()}
	var err error
	if t.wallet, err = keypair.Random(); err != nil {
		return nil, err
	}
	err = t.send(ctx, nil, signers{t.payer, t.wallet},
		&txnbuild.CreateAccount{Destination: t.wallet.Address(), Amount: "1000"},
		&txnbuild.ChangeTrust{
			SourceAccount: t.wallet.Address(),
			Line:          txnbuild.ChangeTrustAssetWrapper{Asset: t.demo},
			Limit:         txnbuild.MaxTrustlineLimit,
		})
	if err != nil {
		return nil, err
	}
	_, err = t.closeLedger()
	return t, err
}

// ExportTo writes all ledgers that are there, and each that a later step closes, to a lake.
func (t *Traffic) ExportTo(w *lake.Writer) error {
	t.lake = w
	return t.export()
}

func (t *Traffic) export() error {
	for ; t.lake != nil && t.exported < t.latest; t.exported++ {
		meta, err := t.network.Ledger(t.exported + 1)
		if err == nil {
			err = t.lake.Add(t.exported+1, meta)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Traffic) closeLedger() (sequence uint32, err error) {
	if t.latest, err = t.network.CloseNow(); err != nil {
		return 0, err
	}
	return t.latest, t.export()
}

// Wallet is the address that is paid, and signs some of the transactions.
func (t *Traffic) Wallet() string { return t.wallet.Address() }

// Close closes the connection.
func (t *Traffic) Close() error { return t.rpc.Close() }

// Step sends transactions of two kinds, and closes the ledger that holds them.
func (t *Traffic) Step(ctx context.Context, n int) error {
	t.round = uint64(n / Kinds)
	for _, kind := range []int{n % Kinds, (5*n + 3) % Kinds} {
		if err := kinds[kind](t, ctx, n); err != nil {
			return fmt.Errorf("step %d, kind %d: %w", n, kind, err)
		}
	}
	_, err := t.closeLedger()
	return err
}

// Burst sends this many payments and closes the ledger that holds them.
func (t *Traffic) Burst(ctx context.Context, payments int) (ledger uint32, err error) {
	for n := range payments {
		if err := t.payLumens(ctx, n); err != nil {
			return 0, err
		}
	}
	return t.closeLedger()
}

func (t *Traffic) payLumens(ctx context.Context, n int) error {
	return t.send(ctx, txnbuild.MemoText(fmt.Sprintf("order %d", n)), signers{t.payer},
		t.payment("1.5", lumens))
}

func (t *Traffic) payDemoMuxed(ctx context.Context, n int) error {
	op := t.payment("0.0000001", t.demo)
	op.Destination = t.muxed(t.round << 32)
	return t.send(ctx, txnbuild.MemoID(n), signers{t.payer}, op)
}

func (t *Traffic) strictReceive(ctx context.Context, n int) error {
	memo := txnbuild.MemoHash{byte(n)}
	return t.send(ctx, memo, signers{t.payer}, &txnbuild.PathPaymentStrictReceive{
		SendAsset:   lumens,
		SendMax:     "100",
		Destination: t.wallet.Address(),
		DestAsset:   t.demo,
		DestAmount:  "0.25",
	})
}

func (t *Traffic) strictSend(ctx context.Context, n int) error {
	return t.send(ctx, txnbuild.MemoReturn{byte(n)}, signers{t.payer}, &txnbuild.PathPaymentStrictSend{
		SendAsset:   t.demo,
		SendAmount:  "0.01",
		Destination: t.muxed(t.round),
		DestAsset:   lumens,
		DestMin:     "0.1",
	})
}

func (t *Traffic) createAccount(ctx context.Context, n int) (err error) {
	if t.spare != nil {
		return nil
	}
	if t.spare, err = keypair.Random(); err != nil {
		return err
	}
	t.spareIn = n
	return t.send(ctx, nil, signers{t.payer},
		&txnbuild.CreateAccount{Destination: t.spare.Address(), Amount: "2"})
}

// mergeAccount waits for the ledger that created the account.
func (t *Traffic) mergeAccount(ctx context.Context, n int) error {
	if t.spare == nil || t.spareIn == n {
		return nil
	}
	gone := t.spare
	t.spare = nil
	return t.send(ctx, txnbuild.MemoText("closing"), signers{gone},
		&txnbuild.AccountMerge{Destination: t.muxed(t.round)})
}

func (t *Traffic) feeBump(ctx context.Context, n int) error {
	return t.bumped(ctx, txnbuild.MemoID(1<<63+uint64(n)), "3")
}

// fail sends two transactions that pay their fee and nothing else, one of them in a fee bump.
func (t *Traffic) fail(ctx context.Context, _ int) error {
	const tooMuch = "90000000000"
	return errors.Join(t.bumped(ctx, nil, tooMuch), t.send(ctx, nil, signers{t.payer},
		t.payment("1", lumens), t.payment(tooMuch, lumens)))
}

func (t *Traffic) createClaimable(ctx context.Context, _ int) error {
	if t.balance != "" {
		return nil
	}
	tx, err := t.build(ctx, nil, signers{t.payer}, &txnbuild.CreateClaimableBalance{
		Amount:       "0.5",
		Asset:        lumens,
		Destinations: []txnbuild.Claimant{txnbuild.NewClaimant(t.wallet.Address(), nil)},
	})
	if err == nil {
		t.balance, err = tx.ClaimableBalanceID(0)
	}
	if err != nil {
		return err
	}
	return t.submit(ctx, tx)
}

func (t *Traffic) claim(ctx context.Context, _ int) error {
	if t.balance == "" {
		return nil
	}
	id := t.balance
	t.balance = ""
	return t.send(ctx, nil, signers{t.wallet}, &txnbuild.ClaimClaimableBalance{BalanceID: id})
}

func (t *Traffic) contractTransfer(ctx context.Context, _ int) error {
	return t.transfer(ctx, t.payer, lumens, t.wallet, &t.round, 70)
}

func (t *Traffic) contractMint(ctx context.Context, _ int) error {
	return t.transfer(ctx, t.issuer, t.demo, t.wallet, nil, 80)
}

func (t *Traffic) contractBurn(ctx context.Context, _ int) error {
	return t.transfer(ctx, t.payer, t.demo, t.issuer, nil, 90)
}

// manyOperations has other sources, a path payment to oneself, and a memo that is not UTF-8.
func (t *Traffic) manyOperations(ctx context.Context, _ int) error {
	back, issued := t.payment("0.1", lumens), t.payment("7", t.demo)
	back.SourceAccount, back.Destination = t.wallet.Address(), t.payer.Address()
	issued.SourceAccount = t.issuer.Address()
	swap := &txnbuild.PathPaymentStrictSend{
		SendAsset:   lumens,
		SendAmount:  "1",
		Destination: t.payer.Address(),
		DestAsset:   t.demo,
		DestMin:     "0.1",
	}
	return t.send(ctx, txnbuild.MemoText("na\xefve"), signers{t.payer, t.wallet, t.issuer},
		back, issued, swap, t.payment("0.2", t.demo))
}

// twoHops goes from lumens through the demo asset back to lumens.
func (t *Traffic) twoHops(ctx context.Context, _ int) error {
	return t.send(ctx, nil, signers{t.payer}, &txnbuild.PathPaymentStrictReceive{
		SendAsset:   lumens,
		SendMax:     "1",
		Destination: t.wallet.Address(),
		DestAsset:   lumens,
		DestAmount:  "0.1",
		Path:        []txnbuild.Asset{t.demo},
	})
}

// payment pays the wallet.
func (t *Traffic) payment(amount string, asset txnbuild.Asset) *txnbuild.Payment {
	return &txnbuild.Payment{Destination: t.wallet.Address(), Amount: amount, Asset: asset}
}

// muxed is an address of the wallet.
func (t *Traffic) muxed(id uint64) string {
	m := xdr.MustMuxedAddress(t.wallet.Address())
	key := xdr.MuxedAccountMed25519{Id: xdr.Uint64(id), Ed25519: *m.Ed25519}
	return (&xdr.MuxedAccount{Type: xdr.CryptoKeyTypeKeyTypeMuxedEd25519, Med25519: &key}).Address()
}

// signers sign a transaction; the first one is its source.
type signers []*keypair.Full

// build makes the next transaction of an account.
func (t *Traffic) build(
	ctx context.Context, memo txnbuild.Memo, by signers, ops ...txnbuild.Operation,
) (*txnbuild.Transaction, error) {
	address := by[0].Address()
	if t.next[address] == 0 {
		account, err := t.rpc.LoadAccount(ctx, address)
		if err != nil {
			return nil, err
		}
		if t.next[address], err = account.GetSequenceNumber(); err != nil {
			return nil, err
		}
	}
	t.next[address]++
	tx, err := txnbuild.NewTransaction(txnbuild.TransactionParams{
		SourceAccount: &txnbuild.SimpleAccount{AccountID: address, Sequence: t.next[address]},
		Operations:    ops,
		BaseFee:       txnbuild.MinBaseFee,
		Memo:          memo,
		Preconditions: txnbuild.Preconditions{TimeBounds: txnbuild.NewInfiniteTimeout()},
	})
	if err != nil {
		return nil, err
	}
	return tx.Sign(t.network.Passphrase(), by...)
}

func (t *Traffic) send(
	ctx context.Context, memo txnbuild.Memo, by signers, ops ...txnbuild.Operation,
) error {
	tx, err := t.build(ctx, memo, by, ops...)
	if err != nil {
		return err
	}
	return t.submit(ctx, tx)
}

// bumped sends a payment of the wallet to the payer, who pays its fee.
func (t *Traffic) bumped(ctx context.Context, memo txnbuild.Memo, amount string) error {
	op := t.payment(amount, lumens)
	op.Destination = t.payer.Address()
	inner, err := t.build(ctx, memo, signers{t.wallet}, op)
	if err != nil {
		return err
	}
	tx, err := txnbuild.NewFeeBumpTransaction(txnbuild.FeeBumpTransactionParams{
		Inner:      inner,
		FeeAccount: t.payer.Address(),
		BaseFee:    2 * txnbuild.MinBaseFee,
	})
	if err == nil {
		tx, err = tx.Sign(t.network.Passphrase(), t.payer)
	}
	if err != nil {
		return err
	}
	return t.submit(ctx, tx)
}

func (t *Traffic) submit(ctx context.Context, tx interface{ Base64() (string, error) }) error {
	text, err := tx.Base64()
	if err != nil {
		return err
	}
	answer, err := t.rpc.SendTransaction(ctx, protocol.SendTransactionRequest{Transaction: text})
	if err == nil && answer.Status != "PENDING" {
		err = fmt.Errorf("the network answered %s to a transaction: %s", answer.Status,
			answer.ErrorResultXDR)
	}
	return err
}

// transfer calls the asset's contract. muxedID is nil for none.
func (t *Traffic) transfer(
	ctx context.Context, from *keypair.Full, asset txnbuild.Asset, to *keypair.Full, muxedID *uint64,
	stroops uint64,
) error {
	known, err := asset.ToXDR()
	if err != nil {
		return err
	}
	id, err := known.ContractID(t.network.Passphrase())
	if err != nil {
		return err
	}
	contract := xdr.ContractId(id)
	call := xdr.InvokeContractArgs{
		ContractAddress: xdr.ScAddress{
			Type:       xdr.ScAddressTypeScAddressTypeContract,
			ContractId: &contract,
		},
		FunctionName: "transfer",
		Args: xdr.ScVec{
			address(from.Address(), nil), address(to.Address(), muxedID),
			{Type: xdr.ScValTypeScvI128, I128: &xdr.Int128Parts{Lo: xdr.Uint64(stroops)}},
		},
	}
	return t.send(ctx, nil, signers{from}, &txnbuild.InvokeHostFunction{
		HostFunction: xdr.HostFunction{InvokeContract: &call},
		Ext: xdr.TransactionExt{
			V:           1,
			SorobanData: &xdr.SorobanTransactionData{ResourceFee: 1000},
		},
	})
}

func address(account string, muxedID *uint64) xdr.ScVal {
	id := xdr.MustAddress(account)
	a := xdr.ScAddress{Type: xdr.ScAddressTypeScAddressTypeAccount, AccountId: &id}
	if muxedID != nil {
		a = xdr.ScAddress{
			Type:         xdr.ScAddressTypeScAddressTypeMuxedAccount,
			MuxedAccount: &xdr.MuxedEd25519Account{Id: xdr.Uint64(*muxedID), Ed25519: *id.Ed25519},
		}
	}
	return xdr.ScVal{Type: xdr.ScValTypeScvAddress, Address: &a}
}
