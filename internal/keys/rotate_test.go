package keys_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/keys"
)

func seal(t *testing.T, s *keys.Sealer, text string) []byte {
	t.Helper()
	sealed, err := s.Seal([]byte(text), "ep_1")
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func wantOpens(t *testing.T, s *keys.Sealer, sealed []byte, want string) {
	t.Helper()
	if opened, err := s.Open(sealed, "ep_1"); err != nil || string(opened) != want {
		t.Errorf("opened %q (%v), want %q", opened, err, want)
	}
}

// TestWhatAnOlderKeySealedStillOpens rotates repeatedly. Every value must open with sealers from
// before and after each rotation.
func TestWhatAnOlderKeySealedStillOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master-key.json")
	old := newSealer(t, path)
	sealed := [][]byte{seal(t, old, "secret")}
	for n := range 5 {
		list, err := keys.RotateMasterFile(path, false)
		if err != nil || len(list) != n+2 || !list[n+1].Seals || list[0].Seals || list[0].Staged {
			t.Fatalf("keys %+v, %v", list, err)
		}
		fresh := newSealer(t, path)
		sealed = append(sealed, seal(t, fresh, "secret"))
		if bytes.Equal(sealed[n][:5], sealed[n+1][:5]) {
			t.Error("the new key does not seal")
		}
		for _, s := range []*keys.Sealer{old, fresh} {
			for _, value := range sealed {
				wantOpens(t, s, value, "secret")
			}
		}
	}
	resealed, changed, err := old.Reseal(sealed[0], "ep_1")
	if err != nil || !changed || !bytes.Equal(resealed[:5], sealed[5][:5]) {
		t.Errorf("resealed: %v, %v", changed, err)
	}
	wantOpens(t, old, resealed, "secret")
	if again, changed, err := old.Reseal(resealed, "ep_1"); err != nil || changed ||
		!bytes.Equal(again, resealed) {
		t.Errorf("resealed twice: %v, %v", changed, err)
	}
	if _, _, err := old.Reseal(sealed[0], "ep_2"); !errors.Is(err, keys.ErrAltered) {
		t.Errorf("resealed for another endpoint: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v (%v)", info.Mode(), err)
	}
}

// With staging, all processes can load a new key before any of them uses it.
func TestAStagedKeySealsNothingYet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	s := newSealer(t, path)
	before := seal(t, s, "x")
	list, err := keys.RotateMasterFile(path, true)
	if err != nil || len(list) != 2 || !list[0].Seals || !list[1].Staged {
		t.Fatalf("keys %+v, %v", list, err)
	}
	if staged := seal(t, newSealer(t, path), "x"); !bytes.Equal(staged[:5], before[:5]) {
		t.Error("a staged key seals")
	}
	if _, err := keys.RotateMasterFile(path, true); !errors.Is(err, keys.ErrStaged) {
		t.Errorf("staging twice: %v", err)
	}
	list, err = keys.RotateMasterFile(path, false)
	if err != nil || len(list) != 2 || list[0].Seals || !list[1].Seals {
		t.Fatalf("keys %+v, %v", list, err)
	}
	if after := seal(t, newSealer(t, path), "x"); bytes.Equal(after[:5], before[:5]) {
		t.Error("the staged key did not take over")
	}
}

// A running process must soon seal with the new key, and at once open what others sealed with it.
func TestASealerFollowsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	running := newSealer(t, path)
	before := seal(t, running, "x")
	if _, err := keys.RotateMasterFile(path, false); err != nil {
		t.Fatal(err)
	}
	wantOpens(t, running, seal(t, newSealer(t, path), "y"), "y")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); bytes.Equal(seal(t, running,
		"x")[:5], before[:5]); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the running process never sealed with the new key")
		}
	}
	// If the file is missing or broken, the known keys stay in use. A value with an unknown key makes
	// the sealer read the file at once.
	unknown := seal(t, newSealer(t, filepath.Join(t.TempDir(), "key")), "z")
	wantsPath := func() {
		_, err := running.Open(unknown, "ep_1")
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("an unknown key gave %v, and not why the file cannot be read", err)
		}
	}
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantsPath()
	wantOpens(t, running, before, "x")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantsPath()
	wantOpens(t, running, before, "x")
}

func TestRotatingAtOnceLosesNoKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	s := newSealer(t, path)
	sealed := seal(t, s, "x")
	var done atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := keys.RotateMasterFile(path, false); err == nil {
				done.Add(1)
			} else if !strings.Contains(err.Error(), path+".new") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	list, err := keys.MasterKeys(text)
	if err != nil || len(list) != int(done.Load())+1 {
		t.Errorf("%d keys after %d rotations (%v)", len(list), done.Load(), err)
	}
	wantOpens(t, newSealer(t, path), sealed, "x")
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
}

func TestRotateRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := keys.RotateMasterFile(filepath.Join(dir,
		"none"), false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("topsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.RotateMasterFile(broken, false); err == nil ||
		strings.Contains(err.Error(), "topsecret") {
		t.Errorf("a broken file: %v", err)
	}
	if text, err := os.ReadFile(broken); err != nil || string(text) != "topsecret" {
		t.Errorf("the broken file is %q now (%v)", text, err)
	}
	open := filepath.Join(dir, "open")
	newSealer(t, open)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.RotateMasterFile(open, false); err == nil ||
		!strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
}

func TestAKeyFromAVariable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	sealed := seal(t, newSealer(t, path), "x")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rotated, _, err := keys.RotateMaster(text, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range [][]byte{text, rotated} {
		s, err := keys.ParseSealer(one)
		if err != nil {
			t.Fatal(err)
		}
		wantOpens(t, s, sealed, "x")
	}
	if _, err := keys.ParseSealer([]byte("topsecret")); err == nil ||
		strings.Contains(err.Error(), "topsecret") {
		t.Errorf("nonsense: %v", err)
	}
}

// Values that a dropped key sealed must no longer open, even in running processes. All other values
// must open, and the key that seals must not be dropped.
func TestDrop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	running := newSealer(t, path)
	before := seal(t, running, "x")
	old, ok := keys.SealedBy(before)
	if !ok || old != running.Newest() {
		t.Fatalf("key %d, newest %d", old, running.Newest())
	}
	if _, err := keys.DropMasterFile(path, old); err == nil ||
		!strings.Contains(err.Error(), "the one that seals") {
		t.Errorf("the key that seals: %v", err)
	}
	if _, err := keys.RotateMasterFile(path, false); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.DropMasterFile(path, old+1); err == nil ||
		!strings.Contains(err.Error(), "has no key") {
		t.Errorf("a key that is not there: %v", err)
	}
	after := seal(t, newSealer(t, path), "x")
	list, err := keys.DropMasterFile(path, old)
	if err != nil || len(list) != 1 || list[0].ID == old || !list[0].Seals {
		t.Fatalf("keys %+v, %v", list, err)
	}
	wantOpens(t, newSealer(t, path), after, "x")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); ; <-tick.C {
		if _, err := running.Open(before, "ep_1"); errors.Is(err, keys.ErrUnknownKey) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the running process goes on with the dropped key")
		}
	}
	wantOpens(t, running, after, "x")
	if _, _, err := keys.DropMaster([]byte("topsecret"), 1); err == nil ||
		strings.Contains(err.Error(), "topsecret") {
		t.Errorf("nonsense: %v", err)
	}
	if _, ok := keys.SealedBy([]byte("short")); ok {
		t.Error("what is no sealed value has a key")
	}
}
