//go:build !race

package rpc_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

// The race detector takes several times the memory, so the bounds are valid only without it.

// childURL is the environment variable with the URL of the server that a child process of this
// test reads from.
const childURL = "LUMENHOOK_TEST_RPC_URL"

func TestMain(m *testing.M) {
	if address := os.Getenv(childURL); address != "" {
		if err := readHostile(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// readHostile sends as many requests as a follower sends in minutes, and prints the peak memory
// and the memory at the end.
func readHostile(address string) error {
	debug.SetGCPercent(300) // as in internal/node
	s, err := rpc.New(rpc.Config{URL: address, Passphrase: passphrase})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for range 4 {
		s.Continue(0, "")
		page, err := s.Look(ctx, 1)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(os.Stderr, "%d ledgers, %.150v\n", len(page), err)
	}
	return printMemory()
}

func printMemory() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for _, name := range []string{"VmHWM:", "VmRSS:"} {
		var kib int
		_, after, found := strings.Cut(string(status), name)
		if _, err := fmt.Sscan(after, &kib); !found || err != nil {
			return errors.Join(err, fmt.Errorf("no %s", name))
		}
		fmt.Println(kib << 10)
	}
	return nil
}

var hostile = map[string]func(w io.Writer, l *largeLedger){
	"a ledger without an end": func(w io.Writer, _ *largeLedger) {
		io.WriteString(w, `{"result":{"ledgers":[{"sequence":1,"metadataXdr":"`)
		flood(w, "AAAA")
	},
	"ledgers without an end": func(w io.Writer, _ *largeLedger) {
		io.WriteString(w, `{"result":{"ledgers":[{}`)
		flood(w, `,{"sequence":1,"metadataXdr":"`+strings.Repeat("AAAA", 1000)+`"}`)
	},
	"members without an end": func(w io.Writer, _ *largeLedger) {
		io.WriteString(w, `{"a":"a"`)
		flood(w, `,"a":"a"`)
	},
	"arrays within each other": func(w io.Writer, _ *largeLedger) { flood(w, `{"result":[`) },
	"a large ledger that is none": func(w io.Writer, _ *largeLedger) {
		io.WriteString(w, `{"result":{"ledgers":[{"sequence":1,"metadataXdr":"`)
		io.WriteString(w, strings.Repeat("AAAA", largeSizeBytes/3)+`"}]}}`)
	},
	"a large ledger": func(w io.Writer, l *largeLedger) {
		fmt.Fprintf(w, `{"result":{"ledgers":[{"sequence":1,"hash":%q,"metadataXdr":%q}],"latestLedger":1}}`,
			l.hash, l.encoded)
	},
}

// largeSizeBytes is the size of the largest readable ledger.
const largeSizeBytes = 23 << 20

// The child process must not exceed these bounds at its peak and at the end.
const (
	memoryPeakBytesMax = 300 << 20
	memoryLeftBytesMax = 200 << 20
)

// flood writes until the client disconnects.
func flood(w io.Writer, text string) {
	text = strings.Repeat(text, 1+(64<<10)/len(text))
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// Whatever a server returns, reading it must take a limited amount of memory, which is released
// afterwards.
func TestHostileAnswersTakeLittleMemory(t *testing.T) {
	l := newLargeLedger(t)
	for name, answer := range hostile {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, packed %v", name, packed), func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked, err := io.ReadAll(r.Body)
					if err != nil {
						return
					}
					if strings.Contains(string(asked), "getHealth") {
						io.WriteString(w, `{"result":{"status":"healthy","latestLedger":1,"oldestLedger":1}}`)
						return
					}
					if !packed {
						answer(w, l)
						return
					}
					w.Header().Set("Content-Encoding", "gzip")
					z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
					if err != nil {
						t.Error(err)
						return
					}
					answer(z, l)
					z.Close()
				}))
				t.Cleanup(server.Close)
				measureChild(t, server.URL)
			})
		}
	}
}

func measureChild(t *testing.T, address string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program)
	child.Env = append(os.Environ(), childURL+"="+address)
	var said strings.Builder
	child.Stderr = &said
	out, err := child.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	var peak, left int64
	if _, err := fmt.Fscan(bufio.NewReader(strings.NewReader(string(out))), &peak, &left); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%d MiB at most, %d MiB then", peak>>20, left>>20)
	if peak > memoryPeakBytesMax || left > memoryLeftBytesMax {
		t.Errorf("it took %d MiB, and %d MiB at the end: %s", peak>>20, left>>20, said.String())
	}
}

// largeLedger is a ledger with valid hashes and as many transactions as fit.
type largeLedger struct{ hash, encoded string }

func newLargeLedger(t *testing.T) *largeLedger {
	t.Helper()
	from := xdr.MustMuxedAddress("GAAQEAYEAUDAOCAJBIFQYDIOB4IBCEQTCQKRMFYYDENBWHA5DYPSABOV")
	const transactions = 120_000
	envelopes := make([]xdr.TransactionEnvelope, transactions)
	results := make([]xdr.TransactionResultPair, transactions)
	processed := make([]xdr.TransactionResultMetaV1, transactions)
	for i := range envelopes {
		envelopes[i] = xdr.TransactionEnvelope{
			Type: xdr.EnvelopeTypeEnvelopeTypeTx,
			V1: &xdr.TransactionV1Envelope{Tx: xdr.Transaction{
				SourceAccount: from,
				Fee:           100,
				SeqNum:        xdr.SequenceNumber(i),
				Operations: []xdr.Operation{{Body: xdr.OperationBody{
					Type:           xdr.OperationTypeBumpSequence,
					BumpSequenceOp: &xdr.BumpSequenceOp{},
				}}},
			}},
		}
		hash, err := network.HashTransactionInEnvelope(envelopes[i], passphrase)
		if err != nil {
			t.Fatal(err)
		}
		results[i] = xdr.TransactionResultPair{TransactionHash: hash, Result: xdr.TransactionResult{
			Result: xdr.TransactionResultResult{
				Code: xdr.TransactionResultCodeTxSuccess,
				Results: &[]xdr.OperationResult{{Tr: &xdr.OperationResultTr{
					Type:          xdr.OperationTypeBumpSequence,
					BumpSeqResult: &xdr.BumpSequenceResult{},
				}}},
			},
		}}
		processed[i] = xdr.TransactionResultMetaV1{
			Result: results[i],
			TxApplyProcessing: xdr.TransactionMeta{V: 4, V4: &xdr.TransactionMetaV4{
				Operations: []xdr.OperationMetaV2{{}},
			}},
		}
	}
	phase := xdr.TransactionPhase{V0Components: &[]xdr.TxSetComponent{{
		TxsMaybeDiscountedFee: &xdr.TxSetComponentTxsMaybeDiscountedFee{Txs: envelopes},
	}}}
	set := xdr.GeneralizedTransactionSet{V: 1, V1TxSet: &xdr.TransactionSetV1{
		Phases: []xdr.TransactionPhase{phase},
	}}
	header := xdr.LedgerHeader{
		LedgerVersion:   23,
		LedgerSeq:       1,
		ScpValue:        xdr.StellarValue{TxSetHash: hashOf(t, set)},
		TxSetResultHash: hashOf(t, xdr.TransactionResultSet{Results: results}),
	}
	hash := hashOf(t, header)
	raw, err := xdr.LedgerCloseMeta{V: 2, V2: &xdr.LedgerCloseMetaV2{
		LedgerHeader: xdr.LedgerHeaderHistoryEntry{Hash: hash, Header: header},
		TxSet:        set,
		TxProcessing: processed,
	}}.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the ledger weighs %d MiB", len(raw)>>20)
	return &largeLedger{hash.HexString(), base64.StdEncoding.EncodeToString(raw)}
}
