package horizon

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/domain"
)

// oddRecords are records of the list of payments as a server might give them that is out of order.
var oddRecords = []string{
	`{}`, `null`, `{"id":"1","transaction_successful":true,"type":"payment"}`,
	`{"transaction_successful":true,"transaction_hash":"` + zeros + `","type":"payment",` +
		`"transaction":{"memo_type":"none"},"from":"` + odd + `","to":"` + odd + `",` +
		`"amount":"1","asset_type":"native"}`,
	`{"transaction_successful":true,"transaction_hash":"` + zeros + `","type":"payment",` +
		`"transaction":{"memo_type":"none"},"from":"` + wallet + `","to":"` + wallet + `",` +
		`"amount":"1","asset_code":"\u0000\n","asset_issuer":"` + odd + `"}`,
	`{"transaction_successful":true,"transaction_hash":"` + odd + odd[:8] + `","type":"payment",` +
		`"transaction":{"memo_type":"none"},"from":"` + wallet + `","to":"` + wallet + `",` +
		`"amount":"1","asset_type":"native"}`,
	`{"id":"1","transaction_successful":true,"transaction_hash":"` + zeros + `","type":"payment",` +
		`"transaction":{"memo_type":"none"},"from":"` + wallet + `","to":"` + wallet + `",` +
		`"amount":"1","asset_type":"credit_alphanum4","asset_code":"U~DC","asset_issuer":"` + wallet + `"}`,
	`{"transaction_successful":true,"transaction_hash":"` + zeros + `",` +
		`"type":"invoke_host_function","transaction":{"memo_type":"id","memo":"18446744073709551616"},` +
		`"asset_balance_changes":[{"type":"mint","to":"G","amount":"-1"},` +
		`{"type":"transfer","to":"` + wallet + `","from":"` + wallet + `","amount":"99999999999999"}]}`,
}

const (
	wallet = "GA3SFN43SGZ652GGFRIWUFTVJWWYQUCZ2HKTEEM6FO35B6KK5QM72GHR"
	odd    = "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG" // as long as an address
	zeros  = "0000000000000000000000000000000000000000000000000000000000000000"
)

var (
	hexHash   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	assetCode = regexp.MustCompile(`^[0-9A-Za-z]{1,12}$`)
)

// Whatever a server lists, each record is a payment that there can be, or is quarantined, or is
// nothing.
func FuzzPayments(f *testing.F) {
	for _, record := range oddRecords {
		f.Add([]byte(record))
	}
	for _, record := range recordedRecords(f) {
		f.Add([]byte(record))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r record
		if json.Unmarshal(raw, &r) != nil {
			return
		}
		l := domain.Ledger{Sequence: 7}
		add(&l, r)
		for _, q := range l.Quarantined {
			if len(q.TxHash) > 64 || len(l.Payments) > 0 {
				t.Errorf("quarantined: %d bytes for a hash, beside %d payments", len(q.TxHash),
					len(l.Payments))
			}
		}
		for _, p := range l.Payments {
			if !hexHash.MatchString(p.TxHash) || p.AmountStroops < 0 ||
				!strkey.IsValidEd25519PublicKey(p.To) || !strkey.IsValidEd25519PublicKey(p.From) &&
				!strkey.IsValidContractAddress(p.From) ||
				!assetCode.MatchString(p.Asset.Code) ||
				!p.Asset.IsNative() && !strkey.IsValidEd25519PublicKey(p.Asset.Issuer) {
				t.Errorf("an impossible payment: %+v", p)
			}
			if _, err := strconv.ParseUint(p.ToMuxedID, 10, 64); p.ToMuxedID != "" && err != nil {
				t.Errorf("an impossible muxed id: %+v", p)
			}
		}
	})
}

// recordedRecords are some of each type from a page that a Horizon gave.
func recordedRecords(f *testing.F) (some []string) {
	f.Helper()
	file, err := os.Open("testdata/horizon-payments-51000294.json.gz")
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	var page struct {
		Embedded struct {
			Records []json.RawMessage `json:"records"`
		} `json:"_embedded"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		f.Fatal(err)
	}
	seen := map[string]int{}
	for _, raw := range page.Embedded.Records {
		var r record
		if err := json.Unmarshal(raw, &r); err != nil {
			f.Fatal(err)
		}
		if seen[r.Type]++; seen[r.Type] <= 2 {
			some = append(some, string(raw))
		}
	}
	if len(some) < 6 {
		f.Fatalf("only %d records were recorded", len(some))
	}
	return some
}
