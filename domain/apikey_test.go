package domain

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAPIKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entropy := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "entropy"))
		live := rapid.Bool().Draw(t, "live")
		key := NewAPIKey(live, entropy)
		prefix := TestKeyPrefix
		if live {
			prefix = LiveKeyPrefix
		}
		if !strings.HasPrefix(key, prefix) || len(key) != len(prefix)+60 || !WellFormedAPIKey(key) {
			t.Fatalf("%s", key)
		}
		i := rapid.IntRange(0, len(key)-1).Draw(t, "i")
		c := rapid.SampledFrom([]byte("0123456789abcdefghjkmnpqrstvwxyzAZ_ ")).Draw(t, "c")
		changed := key[:i] + string(c) + key[i+1:]
		if changed != key && WellFormedAPIKey(changed) {
			t.Fatalf("%s passes for %s", changed, key)
		}
		if WellFormedAPIKey(key[:len(key)-1]) || WellFormedAPIKey(key+"0") ||
			WellFormedAPIKey(key[i:]) != (i == 0) {
			t.Fatal("a cut or longer key passes")
		}
		if len(APIKeyHash(key)) != 32 ||
			changed != key && bytes.Equal(APIKeyHash(key), APIKeyHash(changed)) {
			t.Fatal("hash")
		}
	})
}

// The format of keys must never change, because keys that were issued must keep working.
func TestAPIKeyGolden(t *testing.T) {
	var entropy [32]byte
	for i := range entropy {
		entropy[i] = byte(i)
	}
	const want = "whk_test_000g40r40m30e209185gr38e1w8124gk2gahc5rr34d1p70x3rfg1tthnasy"
	if got := NewAPIKey(false, entropy); got != want {
		t.Fatalf("got %s", got)
	}
	for _, bad := range []string{
		"", "whk_test_", "whk_live_" + strings.TrimPrefix(want, TestKeyPrefix),
		strings.ToUpper(want), " " + want,
	} {
		if WellFormedAPIKey(bad) {
			t.Errorf("%q passes", bad)
		}
	}
	if s := NewSecret(entropy); string(s) != "whsec_"+strings.TrimPrefix(want, TestKeyPrefix)[:52] {
		t.Errorf("secret %q", string(s))
	}
}
