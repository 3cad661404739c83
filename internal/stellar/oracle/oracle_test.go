package oracle

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devtraffic"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

// fixtures are real ledgers of protocols 2 to 26 in the main module.
const fixtures = "../ledger/testdata/pubnet-*.xdr.gz"

// payments returns the payments of a ledger according to the processor and the rules.
func payments(
	raw []byte, passphrase string, used map[string]int,
) (all []domain.Payment, fees int, err error) {
	var lcm xdr.LedgerCloseMeta
	if err := lcm.UnmarshalBinary(raw); err != nil {
		return nil, 0, err
	}
	events, fees, err := consult(lcm, passphrase)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range events {
		p, ok, err := paymentOf(e, used)
		if err != nil {
			return nil, 0, fmt.Errorf("transaction %s, operation %d: %w", e.GetMeta().GetTxHash(), e.index+1,
				err)
		}
		if ok {
			all = append(all, p)
		}
	}
	return all, fees, nil
}

func differences(got, want []domain.Payment) (all []string) {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			all = append(all, fmt.Sprintf("missing: %+v", want[i]))
		case i >= len(want):
			all = append(all, fmt.Sprintf("not told by the processor: %+v", got[i]))
		case !reflect.DeepEqual(got[i], want[i]):
			all = append(all, fmt.Sprintf("\n got %+v\nwant %+v", got[i], want[i]))
		}
	}
	return all
}

func check(t *testing.T, raw []byte, passphrase string, used map[string]int) domain.Ledger {
	t.Helper()
	e, err := ledger.NewExtractor(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Extract(raw)
	if err != nil {
		t.Fatal(err)
	}
	want, fees, err := payments(raw, passphrase, used)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences(got.Payments, want) {
		t.Errorf("ledger %d: %s", got.Sequence, d)
	}
	if len(got.Quarantined) > 0 || fees < got.Transactions {
		t.Errorf("ledger %d: %v quarantined; %d fees of %d transactions", got.Sequence, got.Quarantined,
			fees, got.Transactions)
	}
	return got
}

func realLedgers(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(fixtures)
	if err != nil || len(names) != 10 {
		t.Fatalf("found %v (%v)", names, err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		if all[filepath.Base(name)], err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestRealLedgers(t *testing.T) {
	used, compared := map[string]int{}, 0
	for name, raw := range realLedgers(t) {
		l := check(t, raw, network.PublicNetworkPassphrase, used)
		compared += len(l.Payments)
		t.Logf("%s: %d transactions, %d payments", name, l.Transactions, len(l.Payments))
	}
	if compared < 300 {
		t.Errorf("the ledgers hold %d payments: too few to compare", compared)
	}
	logRules(t, used)
}

// TestDevelopmentNetwork checks two rounds of every kind of traffic on the development network.
func TestDevelopmentNetwork(t *testing.T) {
	n, last := trafficked(t, 2*devtraffic.Kinds)
	used, kinds := map[string]int{}, map[string]int{}
	for _, raw := range follow(t, n, last) {
		for _, p := range check(t, raw.XDR, n.Passphrase(), used).Payments {
			kinds[p.Operation]++
		}
	}
	for _, kind := range operations {
		if kinds[kind] < 2 {
			t.Errorf("the network made %d payments by %s", kinds[kind], kind)
		}
	}
	logRules(t, used)
}

// trafficked runs a development network with the given number of traffic steps. It returns the
// last ledger.
func trafficked(t *testing.T, steps int) (n *devnet.Network, last uint32) {
	t.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	n, err = devnet.Open(devnet.Config{
		Dir:           t.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(n.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	traffic, err := devtraffic.New(t.Context(), n, ids)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = traffic.Close() })
	for step := range steps {
		if err := traffic.Step(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	if last, err = n.CloseNow(); err != nil {
		t.Fatal(err)
	}
	return n, last
}

// follow reads all ledgers of the network up to last.
func follow(t *testing.T, n *devnet.Network, last uint32) (all []ledger.Raw) {
	t.Helper()
	source, err := rpc.New(rpc.Config{
		URL:          n.RPCURL(),
		Passphrase:   n.Passphrase(),
		PollInterval: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	for next := uint32(2); next <= last; {
		page, err := source.Next(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		all, next = append(all, page...), next+uint32(len(page))
	}
	return all
}

// A rule that no ledger needs would only hide faults.
func TestEveryRuleIsNeeded(t *testing.T) {
	used := map[string]int{}
	for _, raw := range realLedgers(t) {
		check(t, raw, network.PublicNetworkPassphrase, used)
	}
	for _, raw := range synthetic(t) {
		check(t, raw, passphrase, used)
	}
	for _, rule := range noPayments {
		if used[rule.name] == 0 {
			t.Errorf("no ledger needs the rule %q", rule.name)
		}
	}
	for _, rule := range retellings {
		if used[rule.name] == 0 {
			t.Errorf("no ledger needs the rule %q", rule.name)
		}
	}
	logRules(t, used)
}

// The comparison must report a payment that is missing, added, or wrong in any field.
func TestTheComparisonIsNotBlind(t *testing.T) {
	raw := realLedgers(t)["pubnet-58752000.xdr.gz"]
	want, _, err := payments(raw, network.PublicNetworkPassphrase, map[string]int{})
	if err != nil {
		t.Fatal(err)
	}
	if d := differences(slices.Clone(want), want); len(d) > 0 {
		t.Fatalf("a copy differs: %v", d)
	}
	if len(differences(want[1:], want)) == 0 ||
		len(differences(append(slices.Clone(want), want[0]), want)) == 0 {
		t.Error("a payment too few or too many passes")
	}
	fields := reflect.TypeFor[domain.Payment]()
	for i := range fields.NumField() {
		wrong := slices.Clone(want)
		switch field := reflect.ValueOf(&wrong[0]).Elem().Field(i); field.Kind() {
		case reflect.String:
			field.SetString(field.String() + "x")
		case reflect.Int64:
			field.SetInt(field.Int() + 1)
		case reflect.Uint32:
			field.SetUint(field.Uint() + 1)
		case reflect.Struct:
			field.Field(0).SetString("x")
		default:
			t.Fatalf("a field of kind %v: teach this test to change it", field.Kind())
		}
		if len(differences(wrong, want)) != 1 {
			t.Errorf("a wrong %s passes", fields.Field(i).Name)
		}
	}
}

func logRules(t *testing.T, used map[string]int) {
	t.Helper()
	var lines []string
	for name, times := range used {
		lines = append(lines, fmt.Sprintf("%6d  %s", times, name))
	}
	slices.Sort(lines)
	t.Logf("differences that the rules cover:\n%s", strings.Join(lines, "\n"))
}
