package follower_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devtraffic"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// busyChain is a network whose wallet is watched and paid in every possible way.
type busyChain struct {
	network *devnet.Network
	lakeDir string
	last    uint32
	traffic *devtraffic.Traffic
}

const (
	busyLast    = 95 // last ledger of a file in the lake
	busyPerFile = 8
)

func (r *rig) busyChain() *busyChain {
	r.t.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		r.t.Fatal(err)
	}
	c := &busyChain{lakeDir: r.t.TempDir(), last: busyLast}
	c.network, err = devnet.Open(devnet.Config{
		Dir:           r.t.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: time.Hour,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.network.Run(context.Background()) }()
	r.t.Cleanup(func() {
		if err := c.network.Close(); err != nil {
			r.t.Error(err)
		}
		<-ended
	})
	traffic, err := devtraffic.New(r.t.Context(), c.network, ids)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = traffic.Close() })
	c.traffic = traffic
	files, err := lake.NewWriter(c.lakeDir,
		lake.Layout{LedgersPerFile: busyPerFile, FilesPerPartition: 1000}, c.network.Passphrase())
	if err = errors.Join(err, traffic.ExportTo(files)); err != nil {
		r.t.Fatal(err)
	}
	for sequence := 4; sequence <= busyLast; sequence++ {
		if err := traffic.Step(r.t.Context(), sequence); err != nil {
			r.t.Fatal(err)
		}
	}
	w := r.directory.add("wat_1", traffic.Wallet())
	w.ID, w.EndpointID, w.EventTypes = "wat_2", "ep_2",
		[]domain.EventType{domain.PaymentReceived, domain.PaymentRejected}
	w.Rules.Memo = domain.MemoRule{Kind: domain.MemoPresent}
	r.directory.mu.Lock()
	r.directory.acknowledged = append(r.directory.acknowledged, w)
	r.directory.mu.Unlock()
	r.admitting()
	return c
}

func (c *busyChain) source(t testing.TB) follower.Source {
	return reader(t, c.rpc(t, c.network.RPCURL()), c.network.Passphrase())
}

func (c *busyChain) rpc(t testing.TB, address string) *rpc.Source {
	t.Helper()
	s, err := rpc.New(rpc.Config{
		URL:          address,
		Passphrase:   c.network.Passphrase(),
		PollInterval: 2 * time.Millisecond,
		BackoffMax:   8 * time.Millisecond,
		PageSize:     7,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c *busyChain) lake(t testing.TB) *lake.Source {
	t.Helper()
	store, err := lake.OpenFolder(c.lakeDir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := lake.New(lake.Config{
		Store:        store,
		Passphrase:   c.network.Passphrase(),
		PollInterval: 2 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// several joins sources. A ledger counts when need of them agree.
func (c *busyChain) several(t testing.TB, need int, from ...source.Looker) *quorum.Source {
	t.Helper()
	config := quorum.Config{
		Need:      need,
		Interval:  2 * time.Millisecond,
		LeftFirst: 2 * time.Millisecond,
		LeftLast:  20 * time.Millisecond,
	}
	for i, s := range from {
		config.Members = append(config.Members,
			quorum.Member{Name: fmt.Sprintf("source %d", i+1), Source: s})
	}
	s, err := quorum.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var createdAt = regexp.MustCompile(`"createdAt":"[^"]*"`)

// facts returns all records that a follower of this source appends, without their times.
func (r *rig) facts(c *busyChain, name string, from source.Source) (all []string) {
	r.t.Helper()
	r.renew(name)
	config := r.config()
	config.Passphrase, config.Start = c.network.Passphrase(), follower.Start{Sequence: 2}
	config.Source = reader(r.t, from, config.Passphrase)
	x := r.startReady(config)
	x.until(c.last)
	if err := x.stopped(); err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	for _, p := range r.observed() {
		all = append(all, fmt.Sprintf("%+v", p))
	}
	for _, m := range r.matches() {
		body := createdAt.ReplaceAllString(string(m.Event.Body), `"createdAt":""`)
		all = append(all, fmt.Sprintf("%s %s %s %s %s",
			m.AccountID, m.EndpointID, m.WatchID, m.WalletAddress, m.Event.ID)+body)
	}
	for _, l := range r.cursors() {
		all = append(all,
			fmt.Sprintf("ledger %d %s %d: %d %d %d %d", l.Sequence, l.Hash, l.ClosedAtMillis, l.Transactions,
				l.Payments, l.Observed, l.Matches))
	}
	return all
}

// stumbling returns a server in front of the network that is sometimes down, sometimes returns
// garbage, and sometimes lags.
func (c *busyChain) stumbling(t *testing.T) *httptest.Server {
	t.Helper()
	target, err := url.Parse(c.network.RPCURL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 9 {
		case 2:
			panic(http.ErrAbortHandler)
		case 4:
			http.Error(w, "away", http.StatusBadGateway)
		case 5:
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"ledgers":[{"sequence":1}]}}`)
		case 7:
			fmt.Fprint(w,
				`{"jsonrpc":"2.0","id":1,"result":{"status":"healthy","latestLedger":3,"oldestLedger":2}}`)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// lies are false changes that a server can make to a ledger that has at least one transaction.
func lies() []func(*xdr.LedgerCloseMetaV2) {
	return []func(*xdr.LedgerCloseMetaV2){
		func(l *xdr.LedgerCloseMetaV2) { // a payment failed
			l.TxProcessing[0].Result.Result.Result = xdr.TransactionResultResult{
				Code: xdr.TransactionResultCodeTxTooLate,
			}
		},
		func(l *xdr.LedgerCloseMetaV2) { l.TxProcessing[0].Result.Result.FeeCharged++ },
		func(l *xdr.LedgerCloseMetaV2) { l.LedgerHeader.Header.ScpValue.CloseTime++ },
		func(l *xdr.LedgerCloseMetaV2) { // a transaction is missing
			l.TxProcessing = l.TxProcessing[1:]
			*l.TxSet.V1TxSet.Phases[0].V0Components = nil
		},
		func(l *xdr.LedgerCloseMetaV2) { // another memo
			for _, c := range *l.TxSet.V1TxSet.Phases[0].V0Components {
				c.TxsMaybeDiscountedFee.Txs[0].V1.Tx.Memo = xdr.MemoID(666)
			}
		},
		func(l *xdr.LedgerCloseMetaV2) { // no events
			for i := range l.TxProcessing {
				for j := range l.TxProcessing[i].TxApplyProcessing.V4.Operations {
					l.TxProcessing[i].TxApplyProcessing.V4.Operations[j].Events = nil
				}
			}
		},
	}
}

// lying returns a server in front of the network that applies every possible lie to each ledger,
// one after another, and then returns the truth.
func (c *busyChain) lying(t *testing.T) *httptest.Server {
	t.Helper()
	target, err := url.Parse(c.network.RPCURL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var turn sync.Mutex // a follower that gives up on a response may ask again before it is written
	told := map[uint32]int{}
	proxy.ModifyResponse = func(answer *http.Response) error {
		raw, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		var page struct {
			Result struct {
				Ledgers []map[string]any `json:"ledgers"`
			} `json:"result"`
		}
		turn.Lock()
		defer turn.Unlock()
		if err := json.Unmarshal(raw, &page); err == nil && len(page.Result.Ledgers) > 0 {
			first := page.Result.Ledgers[0]
			if before := first["metadataXdr"].(string); lie(t, told, first) {
				after := first["metadataXdr"].(string)
				raw = bytes.Replace(raw, []byte(before), []byte(after), 1)
			}
		}
		answer.Body = io.NopCloser(bytes.NewReader(raw))
		answer.ContentLength = int64(len(raw))
		answer.Header.Set("Content-Length", strconv.Itoa(len(raw)))
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server
}

// lie applies the next lie that changes the ledger.
func lie(t *testing.T, told map[uint32]int, l map[string]any) bool {
	sequence := uint32(l["sequence"].(float64))
	for before := l["metadataXdr"].(string); told[sequence] < len(lies()); {
		var meta xdr.LedgerCloseMeta
		if err := xdr.SafeUnmarshalBase64(before, &meta); err != nil {
			t.Error(err)
			return false
		}
		tell := lies()[told[sequence]]
		told[sequence]++
		if components := *meta.V2.TxSet.V1TxSet.Phases[0].V0Components; len(components) == 0 ||
			components[0].TxsMaybeDiscountedFee.Txs[0].V1 == nil {
			continue
		}
		tell(meta.V2)
		after, err := xdr.MarshalBase64(meta)
		if err != nil {
			continue // no longer a valid ledger
		}
		if l["metadataXdr"] = after; after != before {
			return true
		}
	}
	return false
}

// False ledgers cause delays, but nothing else stops. The follower appends nothing from them and
// skips no ledger.
func TestLiesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	want := r.facts(c, "honest", c.rpc(t, c.network.RPCURL()))
	refused := 0
	from, err := rpc.New(rpc.Config{
		URL:          c.lying(t).URL,
		Passphrase:   c.network.Passphrase(),
		PollInterval: time.Millisecond,
		BackoffMax:   time.Millisecond,
		PageSize:     1,
		Trust:        source.Trust{OnRefused: func() { refused++ }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.facts(c, "lying", from); !slices.Equal(got, want) {
		t.Errorf("%d facts of a server that lies, %d of one that does not, and they differ", len(got),
			len(want))
	}
	if refused < int(c.last) {
		t.Errorf("%d lies were refused in %d ledgers", refused, c.last)
	}
	t.Logf("%d lies were refused", refused)
}

// The follower appends the same facts whatever source it reads, however unreliable the source is.
func TestEverySourceLeadsToTheSameFacts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	want := r.facts(c, "rpc", c.rpc(t, c.network.RPCURL()))
	if len(want) < 200 {
		t.Fatalf("only %d facts: too few to compare", len(want))
	}
	for name, from := range map[string]source.Source{
		"lake":      c.lake(t),
		"handover":  c.several(t, 1, c.rpc(t, c.network.RPCURL()), c.lake(t)),
		"stumbling": c.rpc(t, c.stumbling(t).URL),
	} {
		got := r.facts(c, name, from)
		if !slices.Equal(got, want) {
			for i := range want {
				if i >= len(got) || got[i] != want[i] {
					t.Errorf("%s: fact %d of %d (%d):\n got %v\nwant %s", name, i, len(want), len(got),
						got[min(i, len(got)-1)], want[i])
					break
				}
			}
		}
	}
	events := map[string]bool{}
	for _, m := range r.matches() {
		events[m.Event.ID] = true
	}
	if len(events) != len(r.matches()) {
		t.Errorf("%d matches have %d identifiers", len(r.matches()), len(events))
	}
}
