package keys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
		if err == nil || !strings.Contains(err.Error(), "another change is under way") {
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
