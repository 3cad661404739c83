package oracle

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stellar/go-stellar-sdk/ingest"
	"github.com/stellar/go-stellar-sdk/processors/token_transfer"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/devnet/devtraffic"
)

// consumer reads consecutive ledgers as an indexer of the network does, with the SDK's own
// readers, and keeps the state that results from the changes.
type consumer struct {
	passphrase string
	state      map[string]*xdr.LedgerEntry
	first      bool
	trades     map[xdr.OperationType]int
}

func newConsumer(passphrase string) *consumer {
	return &consumer{
		passphrase: passphrase,
		state:      map[string]*xdr.LedgerEntry{},
		first:      true,
		trades:     map[xdr.OperationType]int{},
	}
}

// take reads one ledger, and returns an error for everything that an indexer would reject.
func (c *consumer) take(lcm xdr.LedgerCloseMeta) error {
	err := errors.Join(
		token_transfer.VerifyEvents(lcm, c.passphrase, false),
		c.transactions(lcm),
		c.changes(lcm),
	)
	c.first = false
	if err != nil {
		return fmt.Errorf("ledger %d: %w", lcm.LedgerSequence(), err)
	}
	return nil
}

// transactions checks that the changes of each transaction agree with its result, its fee and its
// sequence number.
func (c *consumer) transactions(lcm xdr.LedgerCloseMeta) error {
	reader, err := ingest.NewLedgerTransactionReaderFromLedgerCloseMeta(c.passphrase, lcm)
	if err != nil {
		return err
	}
	for {
		tx, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.Join(paysItsFee(tx), usesItsSequenceNumber(tx), c.tradesWhatItClaims(tx))
		}
		if err != nil {
			return fmt.Errorf("transaction %s: %w", tx.Hash.HexString(), err)
		}
	}
}

func paysItsFee(tx ingest.LedgerTransaction) error {
	payer, paid := tx.FeeAccount().ToAccountId(), xdr.Int64(0)
	for _, change := range append(tx.GetFeeChanges(), tx.GetPostApplyFeeChanges()...) {
		if change.Pre == nil || change.Post == nil || change.Type != xdr.LedgerEntryTypeAccount {
			return errors.New("a fee changes something else than the balance of an account")
		}
		before, after := change.Pre.Data.MustAccount(), change.Post.Data.MustAccount()
		if !before.AccountId.Equals(payer) {
			return fmt.Errorf("%s pays the fee of %s", before.AccountId.Address(), payer.Address())
		}
		paid += before.Balance - after.Balance
	}
	if paid != tx.Result.Result.FeeCharged {
		return fmt.Errorf("a fee of %d is charged, and %d taken", tx.Result.Result.FeeCharged, paid)
	}
	return nil
}

// usesItsSequenceNumber checks that the number is used before anything is applied, unless the
// transaction was overtaken and has no meta.
func usesItsSequenceNumber(tx ingest.LedgerTransaction) error {
	source, used := tx.Envelope.SourceAccount().ToAccountId(), int64(0)
	for _, change := range ingest.GetChangesFromLedgerEntryChanges(
		tx.UnsafeMeta.MustV4().TxChangesBefore,
	) {
		if change.Pre == nil || change.Post == nil || change.Type != xdr.LedgerEntryTypeAccount {
			return errors.New("before the operations something else than an account changes")
		}
		before, after := change.Pre.Data.MustAccount(), change.Post.Data.MustAccount()
		if before.AccountId.Equals(source) && after.SeqNum == before.SeqNum+1 {
			used = int64(after.SeqNum)
		}
	}
	if used != tx.Envelope.SeqNum() && tx.Result.Successful() {
		return fmt.Errorf(
			"the sequence number %d is its own, and it uses %d",
			tx.Envelope.SeqNum(),
			used,
		)
	}
	return nil
}

// tradesWhatItClaims checks that the lumens of the sellers change by the amounts of the trades
// that a result claims.
func (c *consumer) tradesWhatItClaims(tx ingest.LedgerTransaction) error {
	if !tx.Result.Successful() {
		return nil
	}
	results, _ := tx.Result.OperationResults()
	for i, result := range results {
		changes, err := tx.GetOperationChanges(uint32(i))
		if err != nil {
			return err
		}
		earned := map[string]xdr.Int64{}
		for _, atom := range claimed(*result.Tr) {
			claim := atom.MustOrderBook()
			if claim.AssetBought.IsNative() {
				earned[claim.SellerId.Address()] += claim.AmountBought
			} else {
				earned[claim.SellerId.Address()] -= claim.AmountSold
			}
			c.trades[result.Tr.Type]++
		}
		for _, change := range changes {
			if change.Type == xdr.LedgerEntryTypeAccount && change.Pre != nil && change.Post != nil {
				before, after := change.Pre.Data.MustAccount(), change.Post.Data.MustAccount()
				if _, sold := earned[before.AccountId.Address()]; sold {
					earned[before.AccountId.Address()] -= after.Balance - before.Balance
				}
			}
		}
		for seller, unexplained := range earned {
			if unexplained != 0 {
				return fmt.Errorf("operation %d: the trades of %s and its balance differ by %d", i+1, seller,
					unexplained)
			}
		}
	}
	return nil
}

func claimed(tr xdr.OperationResultTr) []xdr.ClaimAtom {
	switch tr.Type {
	case xdr.OperationTypePathPaymentStrictSend:
		return tr.PathPaymentStrictSendResult.Success.Offers
	case xdr.OperationTypePathPaymentStrictReceive:
		return tr.PathPaymentStrictReceiveResult.Success.Offers
	}
	return nil
}

// changes checks that each change begins with the state that the previous change left.
func (c *consumer) changes(lcm xdr.LedgerCloseMeta) error {
	reader, err := ingest.NewLedgerChangeReaderFromLedgerCloseMeta(c.passphrase, lcm)
	if err != nil {
		return err
	}
	compactor := ingest.NewChangeCompactor(ingest.ChangeCompactorConfig{})
	var faults []error
	for {
		change, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = compactor.AddChange(change)
		}
		if err != nil {
			return err
		}
		faults = append(faults, c.change(lcm.LedgerSequence(), change))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return c.holds()
}

func (c *consumer) change(sequence uint32, change ingest.Change) error {
	key, err := change.LedgerKey()
	if err != nil {
		return err
	}
	raw, err := key.MarshalBinary()
	if err != nil {
		return err
	}
	name := string(raw)
	before, known := c.state[name], change.Pre != nil || !c.first
	if known && !same(change.Pre, before) && !(c.first && before == nil) {
		return fmt.Errorf("a %s changes from %+v, and was %+v", change.Type, change.Pre, before)
	}
	if change.Post == nil {
		delete(c.state, name)
		return nil
	}
	c.state[name] = change.Post
	if uint32(change.Post.LastModifiedLedgerSeq) != sequence {
		return fmt.Errorf(
			"a %s says that ledger %d changed it",
			change.Type,
			change.Post.LastModifiedLedgerSeq,
		)
	}
	return nil
}

func same(a, b *xdr.LedgerEntry) bool {
	if a == nil || b == nil {
		return a == b
	}
	rawA, errA := a.MarshalBinary()
	rawB, errB := b.MarshalBinary()
	return errors.Join(errA, errB) == nil && string(rawA) == string(rawB)
}

// holds checks the invariants of the entries between two ledgers.
func (c *consumer) holds() error {
	owned := map[string]xdr.Uint32{}
	var faults []error
	for _, entry := range c.state {
		if line := entry.Data.TrustLine; line != nil {
			owned[line.AccountId.Address()]++
			if line.Balance < 0 || line.Balance > line.Limit {
				faults = append(faults, fmt.Errorf("a trustline of %d holds %d", line.Limit, line.Balance))
			}
		}
	}
	for _, entry := range c.state {
		if entry.Data.Account != nil {
			faults = append(faults, accountHolds(*entry.Data.Account, owned))
		}
	}
	return errors.Join(faults...)
}

func accountHolds(a xdr.AccountEntry, owned map[string]xdr.Uint32) error {
	address := a.AccountId.Address()
	if count := owned[address] + xdr.Uint32(len(a.Signers)); a.NumSubEntries != count ||
		a.Balance < 0 {
		return fmt.Errorf("%s has %d entries, counts %d and holds %d", address, count, a.NumSubEntries,
			a.Balance)
	}
	if sponsors := a.SignerSponsoringIDs(); a.Ext.V == 1 && a.Ext.V1.Ext.V == 2 &&
		len(sponsors) != len(a.Signers) {
		return fmt.Errorf(
			"%s has %d signers and the sponsors of %d",
			address,
			len(a.Signers),
			len(sponsors),
		)
	}
	return nil
}

// consumed returns the ledgers of a development network after the given number of steps with
// traffic of every kind.
func consumed(t *testing.T, steps int) (passphrase string, all []xdr.LedgerCloseMeta) {
	t.Helper()
	n, last := trafficked(t, steps)
	for _, raw := range follow(t, n, last) {
		var lcm xdr.LedgerCloseMeta
		if err := lcm.UnmarshalBinary(raw.XDR); err != nil {
			t.Fatal(err)
		}
		all = append(all, lcm)
	}
	return n.Passphrase(), all
}

// An indexer of the real network must accept every ledger of the development network.
func TestAnIndexerTakesTheDevelopmentNetwork(t *testing.T) {
	passphrase, ledgers := consumed(t, 12*devtraffic.Kinds)
	c, refused := newConsumer(passphrase), 0
	for _, lcm := range ledgers {
		if err := c.take(lcm); err != nil {
			if refused++; refused <= 3 {
				t.Error(err)
			}
		}
	}
	if refused > 0 {
		t.Errorf("%d of %d ledgers are refused", refused, len(ledgers))
	}
	for _, kind := range []xdr.OperationType{
		xdr.OperationTypePathPaymentStrictSend, xdr.OperationTypePathPaymentStrictReceive,
	} {
		if c.trades[kind] < 10 {
			t.Errorf("%d trades were made by %s: too few to check", c.trades[kind], kind)
		}
	}
	t.Logf(
		"%d ledgers, %d entries in the end, trades: %v",
		len(ledgers),
		len(c.state),
		c.trades,
	)
}

// The indexer must reject a ledger with a wrong change, balance, fee or sequence number.
func TestTheIndexerIsNotBlind(t *testing.T) {
	passphrase, ledgers := consumed(t, devtraffic.Kinds)
	for name, spoil := range spoilers {
		t.Run(name, func(t *testing.T) {
			c, met := newConsumer(passphrase), false
			for _, lcm := range ledgers {
				changed := copyOf(t, lcm)
				if !met && spoil(changed.V2) {
					met = true
					if err := c.take(changed); err == nil {
						t.Fatal("the indexer takes it")
					}
					break
				}
				if err := c.take(lcm); err != nil {
					t.Fatal(err)
				}
			}
			if !met {
				t.Fatal("no ledger can be spoiled that way")
			}
		})
	}
}

func copyOf(t *testing.T, lcm xdr.LedgerCloseMeta) (copied xdr.LedgerCloseMeta) {
	t.Helper()
	raw, err := lcm.MarshalBinary()
	if err = errors.Join(err, copied.UnmarshalBinary(raw)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// spoilers change one thing in a ledger, and report whether the ledger had it.
var spoilers = map[string]func(*xdr.LedgerCloseMetaV2) bool{
	"a trade claims another amount": func(v2 *xdr.LedgerCloseMetaV2) bool {
		for _, tx := range v2.TxProcessing {
			results, _ := tx.Result.Result.OperationResults()
			for _, result := range results {
				if !tx.Result.Result.Successful() {
					continue
				}
				for _, claim := range claimed(*result.Tr) {
					claim.OrderBook.AmountSold++
					claim.OrderBook.AmountBought++
					return true
				}
			}
		}
		return false
	},
	"a balance is another": func(v2 *xdr.LedgerCloseMetaV2) bool {
		return spoilOperations(v2, func(changes xdr.LedgerEntryChanges) xdr.LedgerEntryChanges {
			return spoilFirst(changes, func(a *xdr.LedgerEntryChange) bool {
				if a.Updated == nil || a.Updated.Data.Account == nil {
					return false
				}
				a.Updated.Data.Account.Balance++
				return true
			})
		})
	},
	"a state is none that was": func(v2 *xdr.LedgerCloseMetaV2) bool {
		return spoilOperations(v2, func(changes xdr.LedgerEntryChanges) xdr.LedgerEntryChanges {
			return spoilFirst(changes, func(a *xdr.LedgerEntryChange) bool {
				if a.State == nil || a.State.LastModifiedLedgerSeq < 3 {
					return false
				}
				a.State.LastModifiedLedgerSeq--
				return true
			})
		})
	},
	"another ledger changed it": func(v2 *xdr.LedgerCloseMetaV2) bool {
		return spoilOperations(v2, func(changes xdr.LedgerEntryChanges) xdr.LedgerEntryChanges {
			return spoilFirst(changes, func(a *xdr.LedgerEntryChange) bool {
				if a.Updated != nil {
					a.Updated.LastModifiedLedgerSeq--
				}
				return a.Updated != nil
			})
		})
	},
	"the fee is another": func(v2 *xdr.LedgerCloseMetaV2) bool {
		if len(v2.TxProcessing) > 0 {
			v2.TxProcessing[0].Result.Result.FeeCharged++
		}
		return len(v2.TxProcessing) > 0
	},
	"no sequence number is used": func(v2 *xdr.LedgerCloseMetaV2) bool {
		if len(v2.TxProcessing) > 0 {
			v2.TxProcessing[0].TxApplyProcessing.V4.TxChangesBefore = nil
		}
		return len(v2.TxProcessing) > 0
	},
}

// spoilOperations calls spoil for each operation until one changes.
func spoilOperations(
	v2 *xdr.LedgerCloseMetaV2,
	spoil func(xdr.LedgerEntryChanges) xdr.LedgerEntryChanges,
) bool {
	for _, tx := range v2.TxProcessing {
		for i := range tx.TxApplyProcessing.V4.Operations {
			operation := &tx.TxApplyProcessing.V4.Operations[i]
			before := text(operation.Changes)
			if operation.Changes = spoil(operation.Changes); text(operation.Changes) != before {
				return true
			}
		}
	}
	return false
}

func text(changes xdr.LedgerEntryChanges) string {
	raw, err := changes.MarshalBinary()
	return strings.TrimSpace(string(raw)) + fmt.Sprint(err)
}

func spoilFirst(
	changes xdr.LedgerEntryChanges,
	spoil func(*xdr.LedgerEntryChange) bool,
) xdr.LedgerEntryChanges {
	for i := range changes {
		if spoil(&changes[i]) {
			break
		}
	}
	return changes
}
