package subprocess_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

// TestAChildDiesWithItsParent kills a parent whose child has the other end of a pipe. The pipe ends
// when the child dies.
func TestAChildDiesWithItsParent(t *testing.T) {
	if os.Getenv("ORPHANS_PARENT") != "" {
		runtime.LockOSThread() // the kernel watches the thread that started the child
		child := exec.Command("sh", "-c", "echo started; exec cat")
		child.Stdin, child.Stdout, child.SysProcAttr = os.Stdin, os.Stdout, subprocess.Killed()
		t.Fatal(child.Run()) // it ends when the parent is killed
	}
	if runtime.GOOS != "linux" {
		return // other systems guarantee nothing
	}
	parent := exec.Command(os.Args[0], "-test.run", "^TestAChildDiesWithItsParent$")
	parent.Env = append(os.Environ(), "ORPHANS_PARENT=1")
	stdin, err := parent.StdinPipe() // kept open, so that the child doesn't exit on its own
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	said, childSays, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	parent.Stdout = childSays
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	_ = childSays.Close()
	out := bufio.NewReader(said)
	if line, err := out.ReadString('\n'); line != "started\n" {
		t.Fatalf("the child said %q (%v)", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("then it said %q (%v)", rest, err)
	}
	_ = parent.Wait()
}
