package clickhouse

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// ChildArg is the first argument of our binary when it is to run the engine.
	ChildArg = "clickhouse-engine"

	// childVariable marks the child's environment. A test binary whose TestMain lacks the
	// hook would run its tests in the child and start ever more engines; Start refuses if
	// the mark is set.
	childVariable = "LUMENHOOK_CLICKHOUSE_CHILD"

	// childStopMax bounds a graceful stop, which takes 0.1 s without clients. Idle native
	// connections delay it (by more than 3 s), and a query may run for longer. Both are cut off,
	// which loses nothing that was acknowledged.
	childStopMax = time.Second
)

// MaybeChild turns this process into the engine when it was started as one, and
// returns otherwise. It is the first call of main, and of a TestMain.
func MaybeChild() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case ChildArg:
		os.Exit(ChildMain(os.Args[2:]))
	case confineArg:
		os.Exit(confinedMain(os.Args[2:]))
	}
}

// ChildMain runs the library args[0] with the engine arguments args[1:] and
// returns the exit status. It ends when standard input ends (the parent's death
// ends it) and on SIGTERM: in both cases the query that reads standard input
// ends, the server closes its tables, and the process is gone within seconds.
func ChildMain(args []string) int {
	if len(args) < 1 {
		fmt.Fprintf(os.Stderr,
			"usage: %s LIBRARY [ENGINE ARGUMENT]... (started by lumenhook run, not by people)\n", ChildArg)
		return 2
	}
	// A terminal's Ctrl-C or hang-up is handled by the parent.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	if err := watchParent(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	runtime.LockOSThread()
	if err := runLibrary(args[0], args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// watchParent replaces the library's standard input by a pipe, so that both the end of the
// parent's pipe and SIGTERM can end it.
func watchParent() error {
	parentFD, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("taking over the pipe from the parent: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making the engine's input: %w", err)
	}
	if err := dupOnto(int(r.Fd()), 0); err != nil {
		return fmt.Errorf("making the engine's input: %w", err)
	}
	r.Close()
	parent := os.NewFile(uintptr(parentFD), "parent")
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, parent) // nothing is ever written: the end is all that matters
	}()
	go func() {
		select {
		case <-ended:
		case <-terminated:
		}
		w.Close()
		time.Sleep(childStopMax) //nolint:forbidigo // the process ends before this, or here
		fmt.Fprintln(os.Stderr, "the engine did not end in time and is cut off")
		os.Exit(3)
	}()
	return nil
}
