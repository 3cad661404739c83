package follower_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// poison returns events that any contract may emit, including lookalikes of an asset contract's
// events. None of them is a payment.
func poison() map[string]xdr.ContractEvent {
	five := craftedAmount(0, 5)
	transfer := func(data xdr.ScVal) xdr.ContractEvent {
		return craftedEvent(craftedUSD, "transfer", data, craftedSender, craftedReceiver)
	}
	change := func(e xdr.ContractEvent, change func(*xdr.ContractEvent)) xdr.ContractEvent {
		change(&e)
		return e
	}
	topics := func(all ...xdr.ScVal) xdr.ContractEvent {
		return change(transfer(five),
			func(e *xdr.ContractEvent) { e.Body.V0.Topics = all })
	}
	name := craftedString(craftedUSD.StringCanonical())
	from, to := craftedAddress(craftedSender), craftedAddress(craftedReceiver)
	huge := make([]xdr.ScMapEntry, 5000)
	for i := range huge {
		huge[i] = craftedEntry(fmt.Sprintf("k%d", i), five)
	}
	id, amount := xdr.Uint64(7), craftedEntry("amount", five)
	muxed := craftedEntry("to_muxed_id", xdr.ScVal{Type: xdr.ScValTypeScvU64, U64: &id})
	return map[string]xdr.ContractEvent{
		"no topics":               topics(),
		"a name alone":            topics(craftedSymbol("transfer")),
		"no asset":                topics(craftedSymbol("transfer"), from, to),
		"no receiver":             topics(craftedSymbol("transfer"), from, name),
		"a party too many":        topics(craftedSymbol("transfer"), from, to, to, name),
		"a thousand topics":       topics(slices.Repeat([]xdr.ScVal{craftedSymbol("transfer")}, 1000)...),
		"names for addresses":     topics(craftedSymbol("transfer"), name, name, name),
		"a text for its name":     topics(craftedString("transfer"), from, to, name),
		"an address for its name": topics(from, from, to, name),
		"a symbol for its asset":  topics(craftedSymbol("transfer"), from, to, craftedSymbol("native")),
		"an asset that is none":   topics(craftedSymbol("transfer"), from, to, craftedString("USD:")),
		"an asset of bytes": topics(craftedSymbol("transfer"), from, to,
			craftedString("\x00\xff:")),
		"a long asset": topics(craftedSymbol("transfer"), from, to,
			craftedString(strings.Repeat("A", 1<<16))),
		"topics of vectors": topics(craftedSymbol("transfer"), deep(400), deep(400), name),
		"no amount":         transfer(xdr.ScVal{Type: xdr.ScValTypeScvVoid}),
		"an amount of text": transfer(craftedString("5")),
		"an amount of 64 bits": transfer(xdr.ScVal{Type: xdr.ScValTypeScvU64,
			U64: &id}),
		"an amount of 256 bits": transfer(xdr.ScVal{Type: xdr.ScValTypeScvI256,
			I256: &xdr.Int256Parts{LoLo: 5}}),
		"a vector":           transfer(deep(1)),
		"vectors in vectors": transfer(deep(450)),
		"no map":             transfer(xdr.ScVal{Type: xdr.ScValTypeScvMap, Map: new(*xdr.ScMap)}),
		"an empty map":       transfer(craftedMap()),
		"a huge map":         transfer(craftedMap(huge...)),
		"an amount and more": transfer(craftedMap(amount, muxed, muxed)),
		"two amounts":        transfer(craftedMap(amount, amount)),
		"a muxed id alone":   transfer(craftedMap(muxed, muxed)),
		"a muxed id of text": transfer(craftedMap(amount, craftedEntry("to_muxed_id", name))),
		"a mint to two": craftedEvent(craftedUSD, "mint", five, craftedSender, craftedSender,
			craftedReceiver),
		"a mint to nobody":  craftedEvent(craftedUSD, "mint", five),
		"a burn":            craftedEvent(craftedUSD, "burn", five, craftedReceiver),
		"a clawback":        craftedEvent(craftedUSD, "clawback", five, craftedReceiver),
		"an older clawback": craftedEvent(craftedUSD, "clawback", five, craftedIssuer, craftedReceiver),
		"a burn of two":     craftedEvent(craftedUSD, "burn", five, craftedSender, craftedReceiver),
		"a fee":             craftedEvent(craftedNative, "fee", five, craftedReceiver),
		"a set_authorized":  craftedEvent(craftedUSD, "set_authorized", five, craftedReceiver),
		"a transfer of no one's contract": change(transfer(five),
			func(e *xdr.ContractEvent) { e.ContractId = nil }),
		"a look-alike": change(transfer(five),
			func(e *xdr.ContractEvent) { e.ContractId = &xdr.ContractId{9} }),
		"another asset's contract": change(transfer(five), func(e *xdr.ContractEvent) {
			e.ContractId = craftedEvent(craftedNative, "transfer", five).ContractId
		}),
		"a look-alike of too much": change(transfer(craftedAmount(math.MaxInt64, math.MaxUint64)),
			func(e *xdr.ContractEvent) { e.ContractId = &xdr.ContractId{9} }),
		"a diagnostic": change(transfer(five),
			func(e *xdr.ContractEvent) { e.Type = xdr.ContractEventTypeDiagnostic }),
		"the system's": change(transfer(five),
			func(e *xdr.ContractEvent) { e.Type = xdr.ContractEventTypeSystem }),
	}
}

// watchAll adds a watch of the receiver that matches every payment in the crafted assets.
func (r *rig) watchAll() {
	r.directory.add("wat_1", craftedReceiver)
	r.directory.mu.Lock()
	defer r.directory.mu.Unlock()
	rules := &r.directory.acknowledged[0].Rules
	rules.Assets = append(rules.Assets, domain.Asset{Code: "USD", Issuer: craftedIssuer})
}

func (r *rig) follow(c *craftedChain) {
	r.t.Helper()
	r.admitting()
	config := r.config()
	config.Passphrase, config.Start = craftedNetwork, follower.Start{Sequence: 2}
	config.Source = reader(r.t, c.source(), craftedNetwork)
	x := r.startReady(config)
	x.until(c.next - 1)
	if err := x.stopped(); err != nil {
		r.t.Fatal(err)
	}
	checkCursors(r.t, r.cursors())
	if matched, paid := len(r.matches()), len(r.observed()); matched != paid {
		r.t.Errorf("%d payments have %d matches", paid, matched)
	}
}

func (r *rig) quarantined() map[uint32]int {
	r.t.Helper()
	all := map[uint32]int{}
	for _, record := range r.read(schemas.TopicQuarantine) {
		q, err := schemas.DecodeTransactionQuarantined(schemas.Read(record.Value, record))
		if err != nil {
			r.t.Fatal(err)
		}
		all[q.Ledger]++
	}
	return all
}

// Whatever events contracts emit, following continues. None of these events counts as a payment,
// but genuine payments in the same call do.
func TestPoisonousEventsPayNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watchAll()
	c := newCraftedChain(t)
	var want []string
	names := []string{}
	for name := range poison() {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		genuine := craftedEvent(craftedUSD, "transfer", craftedAmount(0, uint64(100+i)), craftedSender,
			craftedReceiver)
		c.add(23, craftedTx{emitted: []xdr.ContractEvent{poison()[name], genuine}},
			craftedPayments(craftedReceiver, 500+i, 1))
		want = append(want, fmt.Sprintf("%s: USD %d", name, 100+i),
			fmt.Sprintf("%s: XLM %d", name, 500+i))
	}
	r.follow(c)
	var got []string
	for _, p := range r.observed() {
		got = append(got, fmt.Sprintf("%s: %s %d", names[p.Ledger-2], p.Asset.Code, p.AmountStroops))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
	}
	if q := r.quarantined(); len(q) > 0 {
		t.Errorf("ledgers %v have transactions that could not be read", q)
	}
}

// The event forms of CAP-67, and memos of arbitrary bytes, arrive unchanged.
func TestRareFormsOfPaymentsArrive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watchAll()
	c := newCraftedChain(t)
	id := xdr.Uint64(math.MaxUint64)
	c.add(23, craftedTx{emitted: []xdr.ContractEvent{
		craftedEvent(craftedUSD, "transfer", craftedMap(
			craftedEntry("amount", craftedAmount(0, 1)),
			craftedEntry("to_muxed_id", xdr.ScVal{Type: xdr.ScValTypeScvU64, U64: &id})),
			craftedSender, craftedReceiver),
		craftedEvent(craftedUSD, "mint", craftedAmount(0, 2), craftedReceiver),
		craftedEvent(craftedUSD, "mint", craftedAmount(0, 3), craftedSender, craftedReceiver),
		craftedEvent(craftedNative, "transfer", craftedAmount(0, math.MaxInt64), craftedSender,
			craftedReceiver),
		craftedEvent(craftedUSD, "transfer", craftedAmount(0, 0), craftedSender, craftedReceiver),
		craftedEvent(craftedUSD, "transfer", craftedAmount(0, 5), craftedReceiver, craftedReceiver),
	}})
	odd := craftedPayments(craftedReceiver, 6, 1)
	odd.memo = xdr.MemoText("\x00\xff\xfe\"\\\u2028\r\n")
	c.add(23, odd)
	r.follow(c)
	var got []string
	for _, p := range r.observed() {
		got = append(got, fmt.Sprintf("%d %d %s %q", p.Ledger, p.AmountStroops, p.ToMuxedID, p.Memo.Raw))
	}
	want := []string{
		fmt.Sprintf(`2 1 %d ""`, id), `2 2  ""`, `2 3  ""`, fmt.Sprintf(`2 %d  ""`, math.MaxInt64),
		`3 6  "\x00\xff\xfe\"\\\u2028\r\n"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An asset's own contract may emit amounts that no account can have. They are not income: the
// transaction is quarantined, and following continues.
func TestImpossibleAmountsAreQuarantined(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watchAll()
	c := newCraftedChain(t)
	for _, amount := range []xdr.ScVal{
		craftedAmount(1, 0), craftedAmount(0, math.MaxInt64+1), craftedAmount(-1, math.MaxUint64),
		craftedAmount(math.MinInt64, 0), craftedAmount(math.MaxInt64, math.MaxUint64),
	} {
		c.add(23, craftedTx{emitted: []xdr.ContractEvent{
			craftedEvent(craftedUSD, "transfer", amount, craftedSender, craftedReceiver),
		}}, craftedPayments(craftedReceiver, 1, 1))
	}
	r.follow(c)
	if got, named := len(r.observed()), r.quarantined(); got != 5 || len(named) != 5 {
		t.Errorf("%d payments, and the transactions %v are named; want 5 of each", got, named)
	}
}

// A ledger with 10,000 operations that pay one wallet is read like any other.
func TestALedgerOfTenThousandOperations(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watchAll()
	c := newCraftedChain(t)
	var txs []craftedTx
	for i := range 100 {
		txs = append(txs, craftedPayments(craftedReceiver, 100*i+1, 100))
	}
	c.add(23, txs...)
	c.add(23, craftedPayments(craftedReceiver, 10_001, 1))
	r.follow(c)
	var sum, want int64
	ids := map[string]bool{}
	for _, p := range r.observed() {
		sum += p.AmountStroops
		ids[p.ID] = true
	}
	for i := range int64(10_001) {
		want += i + 1
	}
	if sum != want || len(ids) != 10_001 {
		t.Errorf("%d payments of %d stroops, want 10001 of %d", len(ids), sum, want)
	}
}

// newerProtocol is a protocol version that this version does not fully know.
const newerProtocol = 40

// However many transactions of a newer protocol have unknown parts, the other transactions of their
// ledger are read, and following continues.
func TestManyUnknownFormsStopNothing(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]strangeness{
		"operations": strangeOperation, "results": strangeResult,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.watchAll()
			c := newCraftedChain(t)
			var txs []craftedTx
			for i := range 60 {
				pays := craftedPayments(craftedReceiver, 100+i, 1)
				if i%2 == 0 {
					pays = strangely(pays, i+1, s)
				}
				txs = append(txs, pays)
			}
			c.add(newerProtocol, txs...)
			c.add(newerProtocol, craftedPayments(craftedReceiver, 200, 1))
			r.follow(c)
			var got, want []int64
			for _, p := range r.observed() {
				got = append(got, p.AmountStroops)
			}
			for i := int64(1); i < 60; i += 2 {
				want = append(want, 100+i)
			}
			if want = append(want, 200); !slices.Equal(got, want) || r.quarantined()[2] != 30 {
				t.Errorf("got %v, want %v; %v are quarantined, want 30", got, want, r.quarantined())
			}
		})
	}
}

// Copying another transaction's hash into a transaction of an unknown form must not hide anything.
func TestAHashThatIsCopiedStopsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.watchAll()
	c := newCraftedChain(t)
	for i := range 4 {
		how, before := strangeOperation+strangeness(i/2), i%2 == 0
		victim := craftedPayments(craftedReceiver, 101+i, 1)
		attack := strangely(craftedPayments(craftedReceiver, 100, 1), 1, how)
		sent := c.sent
		if before {
			c.sent++ // the attacker's
		}
		_, pair := c.transaction(&victim)
		c.sent = sent
		copied := xdr.ScBytes(append([]byte{0, 0, 0, 0}, c.encode(pair)...))
		attack.noted = []xdr.ContractEvent{craftedEvent(craftedUSD, "note",
			xdr.ScVal{Type: xdr.ScValTypeScvBytes, Bytes: &copied})}
		txs := []craftedTx{attack, victim, craftedPayments(craftedReceiver, 201+i, 1)}
		if !before {
			txs[0], txs[1] = txs[1], txs[0]
		}
		c.add(newerProtocol, txs...)
	}
	r.follow(c)
	var got []int64
	for _, p := range r.observed() {
		got = append(got, p.AmountStroops)
	}
	if want := []int64{101, 201, 102, 202, 103, 203, 104, 204}; !slices.Equal(got, want) ||
		len(r.quarantined()) != 4 {
		t.Errorf("got %v, want %v; %v are quarantined", got, want, r.quarantined())
	}
}
