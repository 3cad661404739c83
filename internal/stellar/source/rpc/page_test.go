package rpc

import (
	"bytes"
	"encoding/base64"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// answers returns possible responses of a server, including malformed JSON.
func answers() []string {
	long := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("a ledger of some length "), 999))
	one := func(members string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"ledgers":[{"sequence":7,"hash":"ab",` + members +
			`}],"latestLedger":9}}`
	}
	return []string{
		one(`"metadataXdr":"` + long + `"`),
		one(`"metadataXdr": "` + long + `"`),
		one(`"metadataXdr":"` + long + `"},{"sequence":8,"metadataXdr":"` + long[:400] + `"`),
		one(`"metadataXdr":"` + strings.ReplaceAll(long[:401], "l", `\u006c`) + `AAA"`),
		one(`"metadataXdr":"AA\/A"`), one(`"metadataXdr":"AA\""`), one(`"metadataXdr":""`),
		one(`"metadataXdr":"A"`), one(`"metadataXdr":"AA=="`), one(`"metadataXdr":"AB=="`),
		one(`"metadataXdr":"AA"`), one(`"metadataXdr":"AA\nAA"`), one("\"metadataXdr\":\"AA\nAA\""),
		one("\"metadataXdr\":\"" + long[:80] + "\n" + long[80:] + `"`), one(`"metadataXdr":"AA=A"`),
		one(`"metadataXdr":"` + long[:200] + `é` + long[204:] + `"`),
		one(`"metadataXdr":"` + long[:200] + "\xff\xff\xff\xff" + long[204:] + `"`),
		one(`"metadataXdr":null`), one(`"metadataXdr":7`), one(`"metadataXdr":"AAAA`),
		one(`"metadataXdr":"AAAA","metadataXdr":"AAAA"`),
		one(`"hash\"metadataXdr":"AAAA"`), one(`"other":"\"metadataXdr\":\"","metadataXdr":"AAAA"`),
		one(`"other":{"metadataXdr":"no base64"}`), one(`"other":"x"metadataXdr":"AAAA"`),
		one(`"metadataXdr":"AAAA","other":"metadataXdr":"`),
		`{"error":{"code":-1,"message":"\"metadataXdr\":\"AAAA\""}}`, `{"result":null}`, `{}`, ``,
		`"metadataXdr":"`, `"metadataXdr":"AAAA"`, `[]`, one(`"metadataXdr":"AAAA"`) + "{}",
	}
}

// sameAsJSON checks that a response is read as by a JSON decoder, or rejected because of a ledger
// that is not plain base64.
func sameAsJSON(t *testing.T, raw []byte) (read bool) {
	t.Helper()
	var got, want ledgers
	err, wantErr := got.read(iotest.HalfReader(bytes.NewReader(raw))), want.unmarshal(raw)
	switch {
	case err == nil && wantErr != nil:
		t.Fatalf("of %.300q something is read, and the JSON decoder fails: %v", raw, wantErr)
	case err == nil && !reflect.DeepEqual(got, want):
		t.Errorf("of %.300q %+v is read, and by the JSON decoder %+v", raw, got, want)
	case err != nil && wantErr == nil && !errors.Is(err, errBase64):
		t.Errorf("%.300q is refused: %v", raw, err)
	}
	return err == nil
}

func TestAnswersAreReadAsByTheDecoder(t *testing.T) {
	read := 0
	// When a response is read in pieces, escapes and groups of base64 may be cut anywhere.
	pieces := strings.Replace(answers()[1], `"hash":"ab"`,
		`"hash":"ab","metadataXdr" : "A`+strings.Repeat(`\/`, pieceSizeBytes)+`AAA"`, 1)
	pieces = pieces[:strings.LastIndex(pieces, `,"metadataXdr": `)] + "}]}}"
	if !sameAsJSON(t, []byte(pieces)) {
		t.Error("an answer with escaped slashes was refused")
	}
	for _, answer := range answers() {
		if sameAsJSON(t, []byte(answer)) {
			read++
		}
	}
	if read < 10 {
		t.Errorf("only %d answers could be read", read)
	}
}

func FuzzPage(f *testing.F) {
	for _, answer := range answers() {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sameAsJSON(t, raw) })
}
