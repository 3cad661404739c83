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
	// ChildArg is the first argument that makes our binary run the engine.
	ChildArg = "clickhouse-engine"

	// childVariable marks the child's environment. If a test binary's TestMain lacked the hook, its
	// child would run the tests again and start more and more engines. Start returns an error if the
	// variable is set.
	childVariable = "LUMENHOOK_CLICKHOUSE_CHILD"

	// childStopMax limits a graceful stop, which takes 0.1 s without clients. Idle native connections
	// delay it by more than 3 s, and a query may run even longer. Both are cut off, which loses
	// nothing that was acknowledged.
	childStopMax = time.Second
)

// MaybeChild runs the engine if this process was started as one, and otherwise returns. It must be
// the first call in main and in a TestMain.
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

// ChildMain runs the library args[0] with the engine arguments args[1:] and returns the exit
// status. It stops on SIGTERM and when standard input ends, which happens when the parent dies. In
// both cases the query that reads standard input ends, the server closes its tables, and the
// process exits within seconds.
func ChildMain(args []string) int {
	if len(args) < 1 {
		fmt.Fprintf(os.Stderr,
			"usage: %s LIBRARY [ENGINE ARGUMENT]... (started by lumenhook run, not by people)\n", ChildArg)
		return 2
	}
	// The parent handles a terminal's Ctrl-C or hang-up.
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

// watchParent replaces the library's standard input with a pipe that closes on SIGTERM and when the
// parent's pipe ends.
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
		_, _ = io.Copy(io.Discard, parent) // the parent never writes, so this waits for the end
	}()
	go func() {
		select {
		case <-ended:
		case <-terminated:
		}
		w.Close()
		time.Sleep(childStopMax) //nolint:forbidigo // the process usually ends before this
		fmt.Fprintln(os.Stderr, "the engine did not end in time and is cut off")
		os.Exit(3)
	}()
	return nil
}
