package keys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAFileIsChangedWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	text := func(s string) func() ([]byte, error) {
		return func() ([]byte, error) { return []byte(s), nil }
	}
	holds := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("the file holds %q, %v; want %q", got, err, want)
		}
		if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the new file is still there: %v", err)
		}
	}
	if err := changeFile(path, text("first")); err != nil {
		t.Fatal(err)
	}
	holds("first")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v; want 0600", info.Mode(), err)
	}

	refused := errors.New("refused")
	err := changeFile(path, func() ([]byte, error) { return []byte("second"), refused })
	if !errors.Is(err, refused) {
		t.Errorf("a refused change ended with %v", err)
	}
	holds("first")

	err = changeFile(path, func() ([]byte, error) {
		err := changeFile(path, text("of another process"))
		if err == nil || !strings.Contains(err.Error(), "another change is in progress") {
			t.Errorf("a change during another ended with %v", err)
		}
		return []byte("third"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	holds("third")
}

func TestAFileThatCannotTakeItsNameLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := changeFile(path, func() ([]byte, error) { return []byte("text"), nil })
	if err == nil {
		t.Error("a folder was replaced by a file")
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the new file is still there, so every later change would be refused: %v", err)
	}
}

// An operator may rotate keys as root while the service runs as another user. Whether the file is
// changed or created, it must stay readable for the service.
func TestAChangeByRootKeepsTheOwner(t *testing.T) {
	service, group := os.Geteuid(), os.Getegid()
	if service == 0 { // other users cannot give files away
		service, group = 12345, 12346
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "master-key.json")
	if err := os.Chown(dir, service, group); err != nil {
		t.Fatal(err)
	}
	check := func(mode fs.FileMode) {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if sys := info.Sys().(*syscall.Stat_t); int(sys.Uid) != service || int(sys.Gid) != group {
			t.Errorf("the file belongs to %d:%d, not to the service's user", sys.Uid, sys.Gid)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("its mode is %04o, not %04o", info.Mode().Perm(), mode)
		}
	}
	if _, err := LoadOrCreateSealer(path); err != nil {
		t.Fatal(err)
	}
	check(0o600)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := RotateMasterFile(path, false); err != nil {
		t.Fatal(err)
	}
	check(0o400)
	if err := WriteFile(path, []byte("certificate"), 0o640); err != nil {
		t.Fatal(err)
	}
	check(0o640)
}

// If the key file becomes unreadable, a sealer must keep using the keys that it has, and say why it
// cannot open a value that was sealed with a new one.
func TestAnUnreadableKeyFileIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master-key.json")
	service, err := LoadOrCreateSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RotateMasterFile(path, false); err != nil {
		t.Fatal(err)
	}
	other, err := LoadSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := other.Seal([]byte("secret"), "endpoint")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // root may read every file, but this mode is refused
		t.Fatal(err)
	}
	_, err = service.Open(sealed, "endpoint")
	if err == nil || errors.Is(err, ErrUnknownKey) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("opening without the file's new key ended with %v", err)
	}
	if err := service.Check(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("the check says %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if plain, err := service.Open(sealed, "endpoint"); err != nil || string(plain) != "secret" {
		t.Errorf("with a readable file it opens %q, %v", plain, err)
	}
	if err := service.Check(); err != nil {
		t.Error(err)
	}
}
