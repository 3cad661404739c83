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
)

// Traffic sends transactions to one network. It is for one goroutine, which also closes the
// ledgers.
type Traffic struct {
	network *devnet.Network
	rpc     *rpcclient.Client
	payer   *keypair.Full
	issuer  *keypair.Full
	wallet  *keypair.Full // receives, and holds the demo asset
	spare   *keypair.Full // is created and merged away in turns; nil while it is not there
	demo    txnbuild.CreditAsset
	euro    txnbuild.CreditAsset // the payer's own, traded by offers
	next    map[string]int64     // sequence numbers
	balance string               // a claimable balance to claim
	round   uint64               // how often every kind was sent before: muxed ids begin at 0
}

// kinds are what steps do in turns.
var kinds = []func(*Traffic, context.Context, int) error{
	(*Traffic).payLumens, (*Traffic).payDemoMuxed, (*Traffic).strictReceive, (*Traffic).strictSend,
	(*Traffic).createAccount,
	(*Traffic).mergeAccount, (*Traffic).feeBump, (*Traffic).fail, (*Traffic).createClaimable,
	(*Traffic).claim,
	(*Traffic).contractTransfer, (*Traffic).contractMint, (*Traffic).contractBurn,
	(*Traffic).manyOperations,
	(*Traffic).sellOffer, (*Traffic).buyOffer, (*Traffic).twoHops,
	(*Traffic).manageData, (*Traffic).conditions,
}

// Kinds is the number of steps after which everything has been sent once.
var Kinds = len(kinds)

// New makes the wallet that is paid, closing ledgers as needed.
func New(ctx context.Context, network *devnet.Network, ids devnet.Identities) (*Traffic, error) {
	t := &Traffic{
		network: network,
		rpc:     rpcclient.NewClient(network.RPCURL(), nil),
		next:    map[string]int64{},
	}
	var err error
	if t.payer, err = keypair.ParseFull(ids.PayerSeed); err != nil {
		return nil, fmt.Errorf("the payer's key: %w", err)
	}
	if t.issuer, err = keypair.ParseFull(ids.IssuerSeed); err != nil {
		return nil, fmt.Errorf("the issuer's key: %w", err)
	}
	t.demo = txnbuild.CreditAsset{Code: devnet.DemoAssetCode, Issuer: t.issuer.Address()}
	t.euro = txnbuild.CreditAsset{Code: "EURO5", Issuer: t.payer.Address()}
	if t.wallet, err = keypair.Random(); err != nil {
		return nil, err
	}
	err = t.send(ctx, t.payer, nil, []*keypair.Full{t.wallet},
		&txnbuild.CreateAccount{Destination: t.wallet.Address(), Amount: "1000"}, t.trust(t.demo),
		t.trust(t.euro))
	if err != nil {
		return nil, err
	}
	_, err = network.CloseNow()
	return t, err
}

// trust has the wallet trust an asset.
func (t *Traffic) trust(asset txnbuild.CreditAsset) *txnbuild.ChangeTrust {
	return &txnbuild.ChangeTrust{
		SourceAccount: t.wallet.Address(),
		Line:          txnbuild.ChangeTrustAssetWrapper{Asset: asset},
		Limit:         txnbuild.MaxTrustlineLimit,
	}
}

// Wallet is the address that is paid, and signs some of the transactions.
func (t *Traffic) Wallet() string { return t.wallet.Address() }

// Close lets go of the connection.
func (t *Traffic) Close() error { return t.rpc.Close() }

// Step sends two transactions, more or fewer, and closes the ledger that holds them.
func (t *Traffic) Step(ctx context.Context, n int) error {
	t.round = uint64(n / Kinds)
	for _, kind := range []int{n % Kinds, (5*n + 3) % Kinds} {
		if err := kinds[kind](t, ctx, n); err != nil {
			return fmt.Errorf("step %d, kind %d: %w", n, kind, err)
		}
	}
	_, err := t.network.CloseNow()
	return err
}

// Burst sends this many payments and closes the ledger that holds them.
func (t *Traffic) Burst(ctx context.Context, payments int) (ledger uint32, err error) {
	for n := range payments {
		if err := t.payLumens(ctx, n); err != nil {
			return 0, err
		}
	}
	return t.network.CloseNow()
}

func (t *Traffic) payLumens(ctx context.Context, n int) error {
	return t.send(ctx, t.payer, txnbuild.MemoText(fmt.Sprintf("order %d", n)), nil,
		payment(t.wallet.Address(), "1.5", txnbuild.NativeAsset{}))
}

func (t *Traffic) payDemoMuxed(ctx context.Context, n int) error {
	to, err := muxed(t.wallet.Address(), t.round<<32)
	if err != nil {
		return err
	}
	return t.send(ctx, t.payer, txnbuild.MemoID(n), nil, payment(to, "0.0000001", t.demo))
}

func (t *Traffic) strictReceive(ctx context.Context, n int) error {
	return t.send(ctx, t.payer, txnbuild.MemoHash{byte(n)}, nil, &txnbuild.PathPaymentStrictReceive{
		SendAsset:   txnbuild.NativeAsset{},
		SendMax:     "100",
		Destination: t.wallet.Address(),
		DestAsset:   t.demo,
		DestAmount:  "0.25"})
}

func (t *Traffic) strictSend(ctx context.Context, n int) error {
	to, err := muxed(t.wallet.Address(), t.round)
	if err != nil {
		return err
	}
	return t.send(ctx, t.payer, txnbuild.MemoReturn{byte(n)}, nil, &txnbuild.PathPaymentStrictSend{
		SendAsset:   t.demo,
		SendAmount:  "0.01",
		Destination: to,
		DestAsset:   txnbuild.NativeAsset{},
		DestMin:     "0.1"})
}

func (t *Traffic) createAccount(ctx context.Context, _ int) (err error) {
	if t.spare != nil {
		return nil
	}
	if t.spare, err = keypair.Random(); err != nil {
		return err
	}
	return t.send(ctx, t.payer, nil, nil,
		&txnbuild.CreateAccount{Destination: t.spare.Address(), Amount: "2"})
}

func (t *Traffic) mergeAccount(ctx context.Context, n int) error {
	if t.spare == nil || !t.exists(ctx, t.spare.Address()) {
		return nil
	}
	to, err := muxed(t.wallet.Address(), t.round)
	if err != nil {
		return err
	}
	gone := t.spare
	t.spare = nil
	return t.send(ctx, gone, txnbuild.MemoText("closing"), nil,
		&txnbuild.AccountMerge{Destination: to})
}

func (t *Traffic) exists(ctx context.Context, address string) bool {
	_, err := t.rpc.LoadAccount(ctx, address)
	return err == nil
}

func (t *Traffic) feeBump(ctx context.Context, n int) error {
	return t.bumped(ctx, txnbuild.MemoID(1<<63+uint64(n)),
		payment(t.wallet.Address(), "3", txnbuild.NativeAsset{}))
}

// fail sends two transactions that pay their fee and nothing else, one of them in a fee bump.
func (t *Traffic) fail(ctx context.Context, _ int) error {
	tooMuch := payment(t.wallet.Address(), "90000000000", txnbuild.NativeAsset{})
	fine := payment(t.wallet.Address(), "1", txnbuild.NativeAsset{})
	return errors.Join(t.send(ctx, t.payer, nil, nil, fine, tooMuch), t.bumped(ctx, nil, tooMuch))
}

func (t *Traffic) createClaimable(ctx context.Context, _ int) error {
	if t.balance != "" {
		return nil
	}
	op := &txnbuild.CreateClaimableBalance{
		Amount:       "0.5",
		Asset:        txnbuild.NativeAsset{},
		Destinations: []txnbuild.Claimant{txnbuild.NewClaimant(t.wallet.Address(), nil)},
	}
	tx, err := t.build(ctx, t.payer, nil, nil, op)
	if err != nil {
		return err
	}
	if t.balance, err = tx.ClaimableBalanceID(0); err != nil {
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
	return t.send(ctx, t.wallet, nil, nil, &txnbuild.ClaimClaimableBalance{BalanceID: id})
}

func (t *Traffic) contractTransfer(ctx context.Context, n int) error {
	id := t.round
	return t.transfer(ctx, t.payer, txnbuild.NativeAsset{}, t.wallet, &id, 70)
}

func (t *Traffic) contractMint(ctx context.Context, _ int) error {
	return t.transfer(ctx, t.issuer, t.demo, t.wallet, nil, 80)
}

func (t *Traffic) contractBurn(ctx context.Context, _ int) error {
	return t.transfer(ctx, t.payer, t.demo, t.issuer, nil, 90)
}

// manyOperations has other sources, a path payment to oneself, and a memo that is no UTF-8.
func (t *Traffic) manyOperations(ctx context.Context, _ int) error {
	back := payment(t.payer.Address(), "0.1", txnbuild.NativeAsset{})
	back.SourceAccount = t.wallet.Address()
	issued := payment(t.wallet.Address(), "7", t.demo)
	issued.SourceAccount = t.issuer.Address()
	swap := &txnbuild.PathPaymentStrictSend{
		SendAsset:   txnbuild.NativeAsset{},
		SendAmount:  "1",
		Destination: t.payer.Address(),
		DestAsset:   t.demo,
		DestMin:     "0.1",
	}
	return t.send(ctx, t.payer, txnbuild.MemoText("na\xefve"), []*keypair.Full{t.wallet, t.issuer},
		back, issued, swap, payment(t.wallet.Address(), "0.2", t.demo))
}

// sellOffer puts euros into the book, which buyOffer and twoHops take in part and whole.
func (t *Traffic) sellOffer(ctx context.Context, _ int) error {
	return t.send(ctx, t.payer, nil, nil,
		&txnbuild.ManageSellOffer{
			Selling: t.euro,
			Buying:  txnbuild.NativeAsset{},
			Amount:  "0.7",
			Price:   xdr.Price{N: 2, D: 1},
		})
}

// buyOffer leaves what it does not get in the book, where the next sellOffer takes it.
func (t *Traffic) buyOffer(ctx context.Context, _ int) error {
	return t.send(ctx, t.wallet, nil, nil,
		&txnbuild.ManageBuyOffer{
			Selling: txnbuild.NativeAsset{},
			Buying:  t.euro,
			Amount:  "0.3",
			Price:   xdr.Price{N: 5, D: 2},
		})
}

// twoHops goes from the demo asset through lumens to euros; without euros in the book it fails.
func (t *Traffic) twoHops(ctx context.Context, _ int) error {
	return t.send(ctx, t.wallet, nil, nil,
		&txnbuild.PathPaymentStrictReceive{SendAsset: t.demo, SendMax: "1",
			Destination: t.wallet.Address(),
			DestAsset:   t.euro, DestAmount: "0.1", Path: []txnbuild.Asset{txnbuild.NativeAsset{}}})
}

// manageData writes an entry and takes it away in turns, and says where the payer is at home.
func (t *Traffic) manageData(ctx context.Context, n int) error {
	entry := &txnbuild.ManageData{Name: "turn", Value: fmt.Append(nil, n)}
	if t.round%3 == 2 {
		entry.Value = nil
	}
	return t.send(ctx, t.payer, nil, nil, entry,
		&txnbuild.SetOptions{HomeDomain: txnbuild.NewHomeDomain("shop.example")})
}

// conditions makes a claimable balance that the wallet can claim only in an hour, and tries to.
func (t *Traffic) conditions(ctx context.Context, _ int) error {
	later := txnbuild.NotPredicate(txnbuild.BeforeRelativeTimePredicate(3600))
	op := &txnbuild.CreateClaimableBalance{Amount: "0.5", Asset: txnbuild.NativeAsset{},
		Destinations: []txnbuild.Claimant{txnbuild.NewClaimant(t.wallet.Address(), &later)}}
	tx, err := t.build(ctx, t.payer, nil, nil, op)
	if err != nil {
		return err
	}
	id, err := tx.ClaimableBalanceID(0)
	if err != nil {
		return err
	}
	return errors.Join(t.submit(ctx, tx),
		t.send(ctx, t.wallet, nil, nil, &txnbuild.ClaimClaimableBalance{BalanceID: id}))
}

func payment(to, amount string, asset txnbuild.Asset) *txnbuild.Payment {
	return &txnbuild.Payment{Destination: to, Amount: amount, Asset: asset}
}

func muxed(address string, id uint64) (string, error) {
	m, err := xdr.MuxedAccountFromAccountId(address, id)
	return m.Address(), err
}

// build makes the next transaction of an account.
func (t *Traffic) build(
	ctx context.Context, from *keypair.Full, memo txnbuild.Memo,
	others []*keypair.Full, ops ...txnbuild.Operation,
) (*txnbuild.Transaction, error) {
	next, err := t.sequence(ctx, from.Address())
	if err != nil {
		return nil, err
	}
	tx, err := txnbuild.NewTransaction(txnbuild.TransactionParams{
		SourceAccount: &txnbuild.SimpleAccount{AccountID: from.Address(), Sequence: next},
		Operations:    ops,
		BaseFee:       txnbuild.MinBaseFee,
		Memo:          memo,
		Preconditions: txnbuild.Preconditions{TimeBounds: txnbuild.NewInfiniteTimeout()},
	})
	if err != nil {
		return nil, err
	}
	return tx.Sign(t.network.Passphrase(), append(others, from)...)
}

func (t *Traffic) sequence(ctx context.Context, address string) (int64, error) {
	if next, ok := t.next[address]; ok {
		t.next[address]++
		return next, nil
	}
	account, err := t.rpc.LoadAccount(ctx, address)
	if err != nil {
		return 0, err
	}
	last, err := account.GetSequenceNumber()
	t.next[address] = last + 2
	return last + 1, err
}

func (t *Traffic) send(
	ctx context.Context, from *keypair.Full, memo txnbuild.Memo,
	others []*keypair.Full, ops ...txnbuild.Operation,
) error {
	tx, err := t.build(ctx, from, memo, others, ops...)
	if err != nil {
		return err
	}
	return t.submit(ctx, tx)
}

// bumped sends a transaction of the wallet that the payer pays for.
func (t *Traffic) bumped(ctx context.Context, memo txnbuild.Memo, op *txnbuild.Payment) error {
	op.Destination = t.payer.Address()
	inner, err := t.build(ctx, t.wallet, memo, nil, op)
	if err != nil {
		return err
	}
	tx, err := txnbuild.NewFeeBumpTransaction(txnbuild.FeeBumpTransactionParams{
		Inner:      inner,
		FeeAccount: t.payer.Address(),
		BaseFee:    2 * txnbuild.MinBaseFee,
	})
	if err != nil {
		return err
	}
	if tx, err = tx.Sign(t.network.Passphrase(), t.payer); err != nil {
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
	if err != nil {
		return err
	}
	if answer.Status != "PENDING" {
		return fmt.Errorf("the network answered %s to a transaction: %s", answer.Status,
			answer.ErrorResultXDR)
	}
	return nil
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
	call := &txnbuild.InvokeHostFunction{
		HostFunction: xdr.HostFunction{
			Type: xdr.HostFunctionTypeHostFunctionTypeInvokeContract,
			InvokeContract: &xdr.InvokeContractArgs{
				ContractAddress: xdr.ScAddress{
					Type:       xdr.ScAddressTypeScAddressTypeContract,
					ContractId: &contract,
				},
				FunctionName: "transfer",
				Args: xdr.ScVec{
					address(from.Address(), nil), address(to.Address(), muxedID),
					{Type: xdr.ScValTypeScvI128, I128: &xdr.Int128Parts{Lo: xdr.Uint64(stroops)}},
				},
			},
		},
		Ext: xdr.TransactionExt{V: 1, SorobanData: &xdr.SorobanTransactionData{ResourceFee: 1000}},
	}
	return t.send(ctx, from, nil, nil, call)
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
