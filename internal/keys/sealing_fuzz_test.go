package keys_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/keys"
)

// FuzzOpen checks that a value opens only if it was sealed with one of our keys, and for the use
// for which it is opened, and that resealing preserves its content.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "key")
	old := newSealer(f, path)
	sealed, err := old.Seal([]byte("whsec_x"), "ep_1")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := keys.RotateMasterFile(path, false); err != nil {
		f.Fatal(err)
	}
	s := newSealer(f, path)
	f.Add(sealed, "ep_1")
	f.Add(sealed, "ep_1 Authorization")
	f.Add(sealed[:5], "ep_1")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, value []byte, boundTo string) {
		plain, err := s.Open(value, boundTo)
		resealed, changed, resealErr := s.Reseal(value, boundTo)
		if (err == nil) != (resealErr == nil) {
			t.Fatalf("opening gives %v, resealing %v", err, resealErr)
		}
		if err != nil {
			if plain != nil || resealed != nil ||
				!errors.Is(err, keys.ErrAltered) && !errors.Is(err, keys.ErrUnknownKey) {
				t.Fatalf("%q, %v", plain, err)
			}
			return
		}
		if !bytes.Equal(value, sealed) || boundTo != "ep_1" || string(plain) != "whsec_x" || !changed {
			t.Fatalf("%x opened for %q", value, boundTo)
		}
		if again, err := s.Open(resealed, boundTo); err != nil || !bytes.Equal(again, plain) {
			t.Fatalf("resealed it says %q, %v", again, err)
		}
	})
}

// FuzzKeyText checks that the error for an invalid master key doesn't quote it, and that a valid
// one gains a key by rotation and cannot lose the key that seals.
func FuzzKeyText(f *testing.F) {
	path := filepath.Join(f.TempDir(), "key")
	newSealer(f, path)
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"primaryKeyId":1,"key":[]}`))
	f.Add([]byte("topsecret"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := keys.MasterKeys(text)
		if _, parseErr := keys.ParseSealer(text); parseErr == nil && err != nil {
			t.Fatalf("it seals, and its keys cannot be listed: %v", err)
		}
		if err != nil {
			if len(text) > 8 && strings.Contains(err.Error(), string(text)) {
				t.Fatalf("the error quotes the text: %v", err)
			}
			return
		}
		rotated, after, err := keys.RotateMaster(text, false)
		if err != nil {
			return // too many keys, or keys of another type
		}
		if len(after) != len(list)+1 && !list[len(list)-1].Staged {
			t.Fatalf("%d keys became %d", len(list), len(after))
		}
		for _, k := range after {
			if left, _, err := keys.DropMaster(rotated, k.ID); (err == nil) == k.Seals && err == nil {
				t.Fatalf("the key that seals was dropped: %d bytes are left", len(left))
			}
		}
	})
}
