package rpc

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// answers are what a server may say, in well-formed JSON or not.
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

// sameAsJSON holds what is read of an answer against what a decoder of JSON reads by itself.
func sameAsJSON(t *testing.T, raw []byte) (read bool) {
	t.Helper()
	before := bytes.Clone(raw)
	var got, want ledgers
	err, wantErr := got.parse(raw), want.unmarshal(raw)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("of %.300q the error is %v, and that of the JSON decoder %v", raw, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("of %.300q %+v is read, and by the JSON decoder %+v", raw, got, want)
	}
	if !bytes.Equal(raw, before) {
		t.Errorf("the answer %.300q was changed", before)
	}
	return err == nil
}

func TestAnswersAreReadAsByTheDecoder(t *testing.T) {
	read := 0
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
