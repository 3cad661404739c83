package source_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devtraffic"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

const benchPayments = 1000

// bigLedger returns a ledger of the development network with benchPayments payments. Like a
// ledger of a real network, it has signatures, fee changes and entry changes.
func bigLedger(b *testing.B) (raw ledger.Raw, passphrase string) {
	b.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		b.Fatal(err)
	}
	n, err := devnet.Open(devnet.Config{
		Dir:           b.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	defer func() {
		if err := n.Close(); err != nil {
			b.Error(err)
		}
		<-ended
	}()
	traffic, err := devtraffic.New(b.Context(), n, ids)
	if err != nil {
		b.Fatal(err)
	}
	defer traffic.Close()
	sequence, err := traffic.Burst(b.Context(), benchPayments)
	if err != nil {
		b.Fatal(err)
	}
	s, err := rpc.New(rpc.Config{URL: n.RPCURL(), Passphrase: n.Passphrase()})
	if err != nil {
		b.Fatal(err)
	}
	page, err := s.Next(b.Context(), sequence)
	if err != nil {
		b.Fatal(err)
	}
	return page[0], n.Passphrase()
}

// canned answers every request with the same ledger, without a network.
type canned struct{ health, page []byte }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	asked, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	body := c.health
	if bytes.Contains(asked, []byte("getLedgers")) {
		body = c.page
	}
	return &http.Response{
		StatusCode:    http.StatusOK,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}, nil
}

func cannedRPC(b *testing.B, raw ledger.Raw) http.RoundTripper {
	b.Helper()
	page, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0",
		"id":      1,
		"result": map[string]any{"latestLedger": raw.Sequence, "ledgers": []any{
			map[string]any{
				"hash":        raw.Hash,
				"sequence":    raw.Sequence,
				"metadataXdr": base64.StdEncoding.EncodeToString(raw.XDR),
			},
		}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return canned{
		page: page,
		health: fmt.Appendf(nil,
			`{"jsonrpc":"2.0","id":1,"result":{"status":"healthy","latestLedger":%d,"oldestLedger":1}}`,
			raw.Sequence),
	}
}

// measure processes one ledger after another. The figure is per second of one core's time,
// including garbage collection, so that it is correct even on a busy machine.
func measure(b *testing.B, one func() (payments int, err error)) {
	b.Helper()
	b.ReportAllocs()
	began := testkit.ProcessorTime(b)
	for b.Loop() {
		if got, err := one(); err != nil || got != benchPayments {
			b.Fatalf("%d payments (%v)", got, err)
		}
	}
	b.ReportMetric(float64(b.N)/(testkit.ProcessorTime(b)-began).Seconds(), "ledgers/s")
}

// follow verifies a ledger and counts its payments, as a follower does.
func follow(e *ledger.Extractor, raw ledger.Raw, passphrase string) (payments int, err error) {
	raw, err = ledger.Verify(raw, passphrase)
	if err != nil {
		return 0, err
	}
	l, err := e.Read(raw)
	return len(l.Payments), err
}

func newExtractor(b *testing.B, passphrase string) *ledger.Extractor {
	b.Helper()
	e, err := ledger.NewExtractor(passphrase)
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func BenchmarkFromRPC(b *testing.B) {
	raw, passphrase := bigLedger(b)
	s, err := rpc.New(rpc.Config{
		URL:        "http://canned",
		Passphrase: passphrase,
		HTTPClient: &http.Client{Transport: cannedRPC(b, raw)},
	})
	if err != nil {
		b.Fatal(err)
	}
	e := newExtractor(b, passphrase)
	b.SetBytes(int64(len(raw.XDR)))
	measure(b, func() (int, error) {
		s.Continue(0, "")
		page, err := s.Next(b.Context(), raw.Sequence)
		if err != nil {
			return 0, err
		}
		l, err := e.Read(page[0])
		return len(l.Payments), err
	})
}

func BenchmarkFromZstd(b *testing.B) {
	raw, passphrase := bigLedger(b)
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		b.Fatal(err)
	}
	file := encoder.EncodeAll(raw.XDR, nil)
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer decoder.Close()
	e := newExtractor(b, passphrase)
	b.SetBytes(int64(len(raw.XDR)))
	measure(b, func() (int, error) {
		plain, err := decoder.DecodeAll(file, nil)
		if err != nil {
			return 0, err
		}
		parts, err := ledger.SplitBatch(plain)
		if err != nil {
			return 0, err
		}
		return follow(e, ledger.Raw{XDR: parts[0]}, passphrase)
	})
}

func BenchmarkFromXDR(b *testing.B) {
	raw, passphrase := bigLedger(b)
	e := newExtractor(b, passphrase)
	b.SetBytes(int64(len(raw.XDR)))
	measure(b, func() (int, error) { return follow(e, ledger.Raw{XDR: raw.XDR}, passphrase) })
}

// BenchmarkFromXDRAlone reads without verifying. It reports in verify-% how much longer reading
// takes with verification. Both alternate, so that other work on the machine affects them
// equally.
func BenchmarkFromXDRAlone(b *testing.B) {
	raw, passphrase := bigLedger(b)
	e := newExtractor(b, passphrase)
	b.SetBytes(int64(len(raw.XDR)))
	var alone, verified time.Duration
	for b.Loop() {
		began := testkit.ProcessorTime(b)
		if _, err := e.Extract(raw.XDR); err != nil {
			b.Fatal(err)
		}
		between := testkit.ProcessorTime(b)
		if _, err := follow(e, ledger.Raw{XDR: raw.XDR}, passphrase); err != nil {
			b.Fatal(err)
		}
		alone += between - began
		verified += testkit.ProcessorTime(b) - between
	}
	b.ReportMetric(float64(b.N)/alone.Seconds(), "ledgers/s")
	b.ReportMetric(100*(float64(verified)/float64(alone)-1), "verify-%")
}

// The floors are the SDK's time to decode the same bytes, and the time to hash all of them.

func BenchmarkFloorFromXDRBySDK(b *testing.B) {
	raw, _ := bigLedger(b)
	b.SetBytes(int64(len(raw.XDR)))
	measure(b, func() (int, error) {
		var whole xdr.LedgerCloseMeta
		err := whole.UnmarshalBinary(raw.XDR)
		return whole.CountTransactions(), err
	})
}

func BenchmarkFloorFromXDRByHash(b *testing.B) {
	raw, _ := bigLedger(b)
	b.SetBytes(int64(len(raw.XDR)))
	var sum [sha256.Size]byte
	measure(b, func() (int, error) {
		sum = sha256.Sum256(raw.XDR)
		return benchPayments, nil
	})
	b.Logf("%x", sum)
}
