package schemas_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/schemas"
)

func goldenMessages(f *testing.F) []schemas.Message {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join("golden", "*.hex"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("%d golden files, %v", len(paths), err)
	}
	var all []schemas.Message
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		value, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			f.Fatalf("%s: %v", path, err)
		}
		name, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".hex"), ".v")
		all = append(all, schemas.Message{Type: name, Version: version, Cause: "cmd_1", Value: value})
	}
	return all
}

// FuzzDecodeFact checks that a journal record is either rejected or decoded, without a panic, and
// that a decoded fact survives another round trip.
func FuzzDecodeFact(f *testing.F) {
	for _, m := range goldenMessages(f) {
		f.Add(m.Type, m.Version, m.Cause, m.Value)
	}
	f.Fuzz(func(t *testing.T, name, version, cause string, value []byte) {
		fact, err := schemas.DecodeFact(schemas.Message{
			Type:    name,
			Version: version,
			Cause:   cause,
			Value:   value,
		})
		if err != nil {
			return
		}
		once := schemas.EncodeFact(fact)
		again, err := schemas.DecodeFact(once)
		if err != nil {
			t.Fatalf("%s was read, but not after it was written again: %v", name, err)
		}
		if twice := schemas.EncodeFact(again); !bytes.Equal(once.Value, twice.Value) {
			t.Fatalf("%s changes when it is written again:\n%x\n%x", name, once.Value, twice.Value)
		}
	})
}

// FuzzDecodeRecords checks that no record of another topic and no stored value makes its decoder
// panic.
func FuzzDecodeRecords(f *testing.F) {
	for _, m := range goldenMessages(f) {
		f.Add(m.Type, m.Value)
	}
	for _, name := range []string{
		"CreateEndpoint", "CreateWatch", "CommandResult", "PaymentObserved", "BalanceMoved",
		"PaymentMatched", "LedgerRead", "Account", "Endpoint", "Watch",
	} {
		f.Add(name, []byte{10, 0})
	}
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		m := schemas.Message{Type: name, Version: "1", Value: value}
		_, _ = schemas.DecodeCommand(m)
		_, _ = schemas.DecodeResult(m)
		_, _ = schemas.DecodePaymentObserved(m)
		_, _ = schemas.DecodeBalanceMoved(m)
		_, _ = schemas.DecodePaymentMatched(m)
		_, _ = schemas.DecodeLedgerRead(m)
		_, _ = schemas.DecodeAccount(m)
		_, _ = schemas.DecodeEndpoint(m)
		_, _ = schemas.DecodeWatch(m)
		_, _ = schemas.UnmarshalDelivery(value)
		_, _ = schemas.UnmarshalEndpoint(value)
		_, _ = schemas.UnmarshalHandled(value)
		_, _, _ = schemas.HandledFor(value)
	})
}
