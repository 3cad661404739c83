package domain

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseMemoHashTakesHexAndBase64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "raw")
		for _, text := range []string{
			hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
			base64.StdEncoding.EncodeToString(raw),
			base64.RawStdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw),
			base64.RawURLEncoding.EncodeToString(raw),
		} {
			m, err := ParseMemo(MemoHash, text)
			if err != nil || m.Type != MemoHash || m.String() != hex.EncodeToString(raw) {
				t.Fatalf("%q: %v %v", text, m, err)
			}
		}
		n := rapid.IntRange(0, 64).Filter(func(n int) bool { return n != 32 }).Draw(t, "n")
		other := make([]byte, n)
		if _, err := ParseMemo(MemoHash, hex.EncodeToString(other)); !errors.Is(err, ErrMemoHash) {
			t.Fatalf("%d bytes in hex: %v", n, err)
		}
		if _, err := ParseMemo(MemoHash, base64.StdEncoding.EncodeToString(other)); !errors.Is(err,
			ErrMemoHash) && n != 48 {
			t.Fatalf("%d bytes in base64: %v", n, err)
		}
	})
}

func TestParseMemo(t *testing.T) {
	for _, c := range []struct {
		typ   MemoType
		value string
		want  error
	}{
		{MemoText, "order 7", nil},
		{MemoText, strings.Repeat("x", 28), nil},
		{MemoText, strings.Repeat("x", 29), ErrMemoText},
		{MemoText, strings.Repeat("€", 9) + "x", nil},
		{MemoText, strings.Repeat("€", 10), ErrMemoText},
		{MemoText, "", ErrMemoText},
		{MemoText, "\xff", ErrMemoText},
		{MemoID, "0", nil},
		{MemoID, "18446744073709551615", nil},
		{MemoID, "18446744073709551616", ErrMemoID},
		{MemoID, "00", ErrMemoID},
		{MemoID, "+1", ErrMemoID},
		{MemoID, "", ErrMemoID},
		{MemoID, "1.0", ErrMemoID},
		{MemoHash, "", ErrMemoHash},
		{MemoHash, strings.Repeat("g", 64), ErrMemoHash},
		{MemoHash, strings.Repeat("A", 43) + "==", ErrMemoHash},
		{MemoHash, strings.Repeat("A", 42) + "\n", ErrMemoHash},
		{MemoHash, strings.Repeat("A", 42) + "B=", ErrMemoHash}, // spare bits
		{MemoReturn, strings.Repeat("0", 64), ErrMemoType},
		{MemoNone, "", ErrMemoType},
	} {
		m, err := ParseMemo(c.typ, c.value)
		if !errors.Is(err, c.want) ||
			c.want == nil && (err != nil || m.String() != c.value || m.Type != c.typ) {
			t.Errorf("%s %q: %v %v", c.typ, c.value, m, err)
		}
	}
}

// A text memo is any 28 bytes. Lumenhook shows it as Horizon does, so that a merchant reads the
// same text in both.
func TestMemoTextIsShownAsHorizonShowsIt(t *testing.T) {
	for raw, want := range map[string]string{
		"":                 "",
		"Grüße":            "Grüße",
		"a\xff\xfe\x00b":   "a��b",
		"\x00\x00":         "",
		"half a rune \xe2": "half a rune �",
		"\xed\xa0\x80":     "���", // a surrogate
	} {
		if got := (Memo{Type: MemoText, Raw: []byte(raw)}).String(); got != want {
			t.Errorf("%q is shown as %q, want %q", raw, got, want)
		}
	}
}
