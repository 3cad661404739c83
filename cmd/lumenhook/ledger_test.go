package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const ledgerData = "../../internal/stellar/ledger/testdata"

// ledgerCommand runs `lumenhook ledger …` in this process.
func ledgerCommand(
	t *testing.T, stdin io.Reader, args ...string,
) (stdout, stderr string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"ledger"}, args...))
	root.SetIn(stdin)
	root.SetOut(&out)
	root.SetErr(&problems)
	err = root.ExecuteContext(t.Context())
	return out.String(), problems.String(), err
}

// withoutMergeAmounts drops what Horizon's list does not know.
func withoutMergeAmounts(t *testing.T, line string) string {
	t.Helper()
	if !strings.Contains(line, `"operation":"account_merge"`) {
		return line
	}
	before, _, ok := strings.Cut(line, `,"amount":`)
	if !ok {
		t.Fatalf("no amount in %s", line)
	}
	return before + `,"amount":null,"amountStroops":null}`
}

func TestLedgerPaymentsReproducesHorizon(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(ledgerData, "expected-payments.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string // those that the Horizon ingested
	for _, sequence := range []string{"51000294", "57500008", "63092988"} {
		files = append(files, filepath.Join(ledgerData, "pubnet-"+sequence+".xdr.gz"))
	}
	got, _, err := ledgerCommand(t, nil, append([]string{"payments"}, files...)...)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	if len(gotLines) != len(wantLines) {
		t.Fatalf("got %d lines, want %d", len(gotLines), len(wantLines))
	}
	for i := range wantLines {
		if line := withoutMergeAmounts(t, gotLines[i]); line != wantLines[i] {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, line, wantLines[i])
		}
	}
}

func TestLedgerPaymentsFromStandardInput(t *testing.T) {
	packed, err := os.Open(filepath.Join(ledgerData, "pubnet-63092988.xdr.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := ledgerCommand(t, strings.NewReader(base64.StdEncoding.EncodeToString(raw)),
		"payments", "-")
	if err != nil || strings.Count(out, "\n") != 127 {
		t.Errorf("got %d payments (%v), want 127", strings.Count(out, "\n"), err)
	}
	for line := range strings.Lines(out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%s is no JSON", line)
		}
	}
}

// A close time that was changed in a file is not printed: only the header's hash tells of it.
func TestLedgerPaymentsVerifies(t *testing.T) {
	zipped, err := os.Open(filepath.Join(ledgerData, "pubnet-51000294.xdr.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	z, err := gzip.NewReader(zipped)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "changed.xdr")
	const closeTime = 4 + 4 + 12 + 32 + 4 + 32 + 32 // behind an extension, hashes and the protocol
	raw[closeTime+7] ^= 1
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := ledgerCommand(t, nil, "payments", file)
	if err == nil || !strings.Contains(err.Error(), "the hash of the header") || out != "" {
		t.Errorf("got %v and %q", err, out)
	}
}

func TestLedgerPaymentsRefusesWhatItCannotRead(t *testing.T) {
	good := filepath.Join(ledgerData, "pubnet-51000294.xdr.gz")
	for name, args := range map[string][]string{
		"no file":   {"payments", good, "/does/not/exist"},
		"no ledger": {"payments", good, filepath.Join(ledgerData, "README.md")},
		"nothing":   {"payments"},
		"another network": {
			"payments", "--network-passphrase", "Test SDF Network ; September 2015", good,
		},
		"no network": {"payments", "--network-passphrase", "", good},
	} {
		out, _, err := ledgerCommand(t, nil, args...)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if printed := strings.Count(out, "\n") > 0; printed != (name == "no file" ||
			name == "no ledger") {
			t.Errorf("%s: %d payments printed", name, strings.Count(out, "\n"))
		}
	}
}
