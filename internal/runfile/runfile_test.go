package runfile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// TestAFolderSaysWhyNobodyIsThere checks that the folder's content distinguishes the reasons why a
// command finds no service.
func TestAFolderSaysWhyNobodyIsThere(t *testing.T) {
	dir := t.TempDir()
	says := func(want string) {
		t.Helper()
		_, err := Read(dir)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the folder says %v, and not %q", err, want)
		}
	}
	says("no service has run in " + dir)
	folder, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	says("is starting or stopping (process ")
	if err := folder.NoteWaits("follower: no source responds"); err != nil {
		t.Fatal(err)
	}
	says("; not ready: follower: no source responds: try again")
	NoteFailure(dir, "another start") // not recorded, because the service is running
	if _, err := Open(dir); err == nil ||
		!strings.Contains(err.Error(), "in use by another lumenhook") {
		t.Errorf("a folder in use was opened: %v", err)
	}
	if err := folder.Publish(File{PID: os.Getpid(), AccountID: "acc_1"}); err != nil {
		t.Fatal(err)
	}
	if file, err := Read(dir); err != nil || file.AccountID != "acc_1" {
		t.Errorf("a running service is %+v, %v", file, err)
	}
	if err := folder.Publish(File{PID: endedProcess(t)}); err != nil {
		t.Fatal(err)
	}
	says("has ended without being stopped")
	for range 2 { // removing it twice is no error
		if err := folder.Unpublish(); err != nil {
			t.Fatal(err)
		}
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	says("has been stopped: start it again")
	NoteFailure(dir, "egress-alow sets nothing")
	says("has been stopped; it failed before: egress-alow sets nothing: start it again")
	if folder, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	says("; it failed before: egress-alow sets nothing: try again")
	err = errors.Join(folder.Publish(File{PID: os.Getpid()}), folder.Unpublish(), folder.Close())
	if err != nil {
		t.Fatal(err)
	}
	says("has been stopped: start it again") // a start that became ready forgets the failure
	dir = t.TempDir()
	NoteFailure(dir, "no folder of a service")
	says("no service has run in " + dir + "; start one")
	before := packaged
	t.Cleanup(func() { packaged = before })
	packaged = t.TempDir()
	says("no service has run in " + dir + "; set --data-dir or LUMENHOOK_DATA_DIR to " + packaged)
	dir = packaged
	NoteFailure(dir, "no network")
	says("is not running; it failed before: no network: start it with `systemctl start lumenhook`")
}

func endedProcess(t *testing.T) int {
	c := exec.Command(os.Args[0], "-test.run", "^$")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}

func TestWhatAFolderDrewItKeeps(t *testing.T) {
	folder, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	key, isNew, err := folder.APIKey(true)
	if err != nil || !isNew || !strings.HasPrefix(key, "whk_live_") {
		t.Fatalf("the API key is %q, %v", key, err)
	}
	logins, err := folder.Logins()
	if err != nil || len(logins.Kafka.Password) < 26 {
		t.Fatalf("the logins are %+v, %v", logins, err)
	}
	if again, isNew, err := folder.APIKey(false); again != key || isNew || err != nil {
		t.Errorf("the API key became %q, %v", again, err)
	}
	if again, err := folder.Logins(); again != logins || err != nil {
		t.Errorf("the logins became %+v, %v", again, err)
	}
}

// A new key must not be stored in the folder before the account has it. Otherwise an interrupted
// start would leave a key that the next start refuses.
func TestANewKeyOfAnAccountIsWrittenLater(t *testing.T) {
	folder, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	if err := folder.SetAccount(domain.DeriveID(domain.AccountPrefix, "x")); err != nil {
		t.Fatal(err)
	}
	first, isNew, err := folder.APIKey(false)
	if err != nil || !isNew {
		t.Fatal(isNew, err)
	}
	second, isNew, err := folder.APIKey(false)
	if err != nil || !isNew || second == first {
		t.Errorf("the key of a start that ended is in the folder (%v, %v)", isNew, err)
	}
	if err := folder.SetAPIKey(second); err != nil {
		t.Fatal(err)
	}
	if kept, isNew, err := folder.APIKey(false); kept != second || isNew || err != nil {
		t.Errorf("the key is %q, new: %v, %v", kept, isNew, err)
	}
}

// Holding a stopped folder must not write to it, and must keep it from being opened.
func TestAStoppedFolderIsHeld(t *testing.T) {
	dir := t.TempDir()
	for _, lock := range []string{"none yet", "there"} {
		release, err := Hold(dir)
		if err != nil {
			t.Fatalf("the lock is %s: %v", lock, err)
		}
		_, err = Open(dir)
		is(t, err, "in use by another lumenhook")
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	opened, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Hold(dir)
	is(t, err, "in use by another lumenhook")
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
	lock := filepath.Join(dir, lockName)
	if err := os.WriteFile(lock, []byte("1 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Hold(dir)
	is(t, err, "is a copy of a folder whose service")
	if text, err := os.ReadFile(lock); err != nil || string(text) != "1 1" {
		t.Errorf("the lock was written: %q %v", text, err)
	}
}

// The advice for the package's folder must name its systemd unit, because nothing else should start
// that service.
func TestThePackagesServiceIsStartedBySystemd(t *testing.T) {
	for dir, want := range map[string]string{
		"/var/lib/lumenhook/": "systemctl start lumenhook", "/var/lib/other": "lumenhook run --data-dir",
	} {
		if got := startAgain(dir); !strings.Contains(got, want) {
			t.Errorf("%s: %s", dir, got)
		}
	}
}
