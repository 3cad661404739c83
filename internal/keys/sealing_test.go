package keys_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/internal/keys"
)

func newSealer(t testing.TB, path string) *keys.Sealer {
	t.Helper()
	s, err := keys.LoadOrCreateSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASealedSecretOpensForWhatItWasSealedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master-key.json")
	s := newSealer(t, path)
	for _, plaintext := range []string{"", "whsec_abc", strings.Repeat("x", 10_000)} {
		sealed, err := s.Seal([]byte(plaintext), "ep_1")
		if err != nil {
			t.Fatal(err)
		}
		if plaintext != "" && bytes.Contains(sealed, []byte(plaintext)) {
			t.Error("the plaintext is in the sealed value")
		}
		again, err := keys.LoadSealer(path) // as another process would
		if err != nil {
			t.Fatal(err)
		}
		if opened, err := again.Open(sealed, "ep_1"); err != nil || string(opened) != plaintext {
			t.Errorf("opened %q (%v), want %q", opened, err, plaintext)
		}
		if _, err := s.Open(sealed, "ep_2"); !errors.Is(err, keys.ErrAltered) {
			t.Errorf("opening it for another endpoint gave %v", err)
		}
	}
	one, err1 := s.Seal([]byte("same"), "a")
	two, err2 := s.Seal([]byte("same"), "a")
	if err := errors.Join(err1, err2); err != nil || bytes.Equal(one, two) {
		t.Errorf("sealing twice gives the same (%v)", err)
	}
}

func TestEveryAlteredByteIsFound(t *testing.T) {
	s := newSealer(t, filepath.Join(t.TempDir(), "key"))
	const plaintext = "whsec_plaintext"
	sealed, err := s.Seal([]byte(plaintext), "ep_1")
	if err != nil {
		t.Fatal(err)
	}
	wrong := func(value []byte, what string) {
		t.Helper()
		opened, err := s.Open(value, "ep_1")
		if opened != nil ||
			!errors.Is(err, keys.ErrAltered) && !errors.Is(err, keys.ErrUnknownKey) {
			t.Errorf("%s: opened %q with %v", what, opened, err)
		}
		if strings.Contains(fmt.Sprint(err), plaintext) {
			t.Errorf("%s: the error holds the plaintext: %v", what, err)
		}
	}
	for i := range sealed {
		altered := bytes.Clone(sealed)
		altered[i] ^= 1
		wrong(altered, fmt.Sprintf("byte %d altered", i))
		wrong(sealed[:i], fmt.Sprintf("cut to %d", i))
	}
	wrong(append(bytes.Clone(sealed), 0), "one byte more")

	other := newSealer(t, filepath.Join(t.TempDir(), "key"))
	if _, err := other.Open(sealed, "ep_1"); !errors.Is(err, keys.ErrUnknownKey) {
		t.Errorf("another key file gave %v", err)
	}
}

func TestTheKeyFileIsPrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "master-key.json")
	newSealer(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file has mode %v (%v)", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for name, load := range map[string]func(string) (*keys.Sealer, error){
			"Load":         keys.LoadSealer,
			"LoadOrCreate": keys.LoadOrCreateSealer,
		} {
			if _, err := load(path); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
				t.Errorf("%s with mode %o gave %v", name, mode, err)
			}
		}
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	newSealer(t, path)
}

func TestAFileWithoutAKeyIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := keys.LoadSealer(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file gave %v", err)
	}
	if _, err := keys.LoadOrCreateSealer(filepath.Join(dir, "no", "folder")); err == nil {
		t.Error("a folder that is not there gave no error")
	}
	if _, err := keys.LoadSealer(dir); err == nil {
		t.Error("a folder gave no error")
	}
	for _, text := range []string{
		"", "{}", "topsecretkey",
		`{"primaryKeyId":1,"key":[{"keyData":{"value":"topsecretkey"}}]}`,
	} {
		path := filepath.Join(dir, "key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := keys.LoadOrCreateSealer(path)
		if err == nil || !strings.Contains(err.Error(), path) ||
			strings.Contains(err.Error(), "topsecretkey") {
			t.Errorf("a file of %q gave %v", text, err)
		}
		if have, err := os.ReadFile(path); err != nil || string(have) != text {
			t.Errorf("the file was changed to %q (%v)", have, err)
		}
	}
}

func TestConcurrentCreationsEndWithOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	sealers := make([]*keys.Sealer, 16)
	var all sync.WaitGroup
	for i := range sealers {
		all.Go(func() {
			s, err := keys.LoadOrCreateSealer(path)
			if err != nil {
				t.Error(err)
			}
			sealers[i] = s
		})
	}
	all.Wait()
	sealed, err := sealers[0].Seal([]byte("x"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sealers {
		all.Go(func() {
			if _, err := s.Open(sealed, ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func BenchmarkSeal(b *testing.B) {
	s := newSealer(b, filepath.Join(b.TempDir(), "key"))
	secret := bytes.Repeat([]byte("x"), 58)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Seal(secret, "ep_00000000000000000000000000"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	s := newSealer(b, filepath.Join(b.TempDir(), "key"))
	sealed, err := s.Seal(bytes.Repeat([]byte("x"), 58), "ep_00000000000000000000000000")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Open(sealed, "ep_00000000000000000000000000"); err != nil {
			b.Fatal(err)
		}
	}
}
