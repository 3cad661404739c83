package server_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"github.com/lumenhook/lumenhook/internal/server"
)

// asChild is a variable that says what this test binary does as a child.
const asChild = "SUPERVISE_TEST_CHILD"

var children = map[string]func(){
	"ends in order": func() {},
	"fails":         func() { os.Exit(7) },
	"panics":        func() { panic("as it is told to") },
	"is killed":     func() { killed() },
	"ends in order when told": func() {
		<-told()
	},
	"fails when told": func() {
		<-told()
		os.Exit(7)
	},
	"is killed when told": func() {
		<-told()
		killed()
	},
	"takes no order": func() {
		never := make(chan os.Signal, 1)
		signal.Notify(never, syscall.SIGUSR1) // without a handler, Go would report a deadlock
		begun()
		<-never
	},
	"is a parent itself": func() {
		must(os.Setenv(asChild, "takes no order"))
		_, err := server.RunChild(context.Background(), nil, func(int) {})
		panic(err) // it is killed before this
	},
}

func TestMain(m *testing.M) {
	if be, is := children[os.Getenv(asChild)]; is {
		be()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func killed() {
	must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}

// told is closed when the child is ordered to exit.
func told() <-chan os.Signal {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGTERM)
	begun()
	return heard
}

// begun lets the test continue. The child's standard input is a pipe to the test.
func begun() {
	_, err := os.Stdin.Write([]byte{1})
	must(err)
}

// child runs a child process. Once it runs, child calls then with a function that orders it to
// exit, and its pid.
func child(t *testing.T, does string, then func(order func(), pid int)) server.ChildEnd {
	t.Helper()
	t.Setenv(asChild, does)
	ours, its, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	stdin := os.Stdin
	os.Stdin = its
	t.Cleanup(func() { os.Stdin = stdin; _ = its.Close() })
	ctx, order := context.WithCancel(t.Context())
	defer order()
	end, err := server.RunChild(ctx, nil, func(pid int) {
		go func() {
			if n, _ := ours.Read(make([]byte, 1)); n > 0 {
				then(order, pid)
			}
		}()
	})
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func TestHowAChildEndedIsTold(t *testing.T) {
	for does, want := range map[string]struct {
		clean bool
		code  int
	}{
		"ends in order":           {true, 0},
		"fails":                   {false, 7},
		"panics":                  {false, 2},
		"is killed":               {false, 128 + 9},
		"ends in order when told": {true, 0},
		"fails when told":         {false, 7},
		"is killed when told":     {false, 128 + 9},
		"takes no order":          {true, 128 + 15},
	} {
		t.Run(does, func(t *testing.T) {
			end := child(t, does, func(order func(), _ int) { order() })
			if end.Clean() != want.clean || end.Code() != want.code {
				t.Errorf("it ended with %d (%s), clean: %t", end.Code(), end, end.Clean())
			}
		})
	}
}

// A SIGTERM that another program sent doesn't count as our order to exit.
func TestASignalOfAnotherIsADeath(t *testing.T) {
	end := child(t, "takes no order", func(_ func(), pid int) {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	if end.Clean() || end.Code() != 128+15 {
		t.Errorf("it ended with %d (%s), clean: %t", end.Code(), end, end.Clean())
	}
}

// A child must die with its parent. The pipe that the child inherits ends when the last of both has
// exited.
func TestAChildGoesWhenItsParentIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // other systems guarantee nothing
	}
	ours, its, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asChild+"=is a parent itself")
	parent.Stdin = its
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	_ = its.Close()
	if _, err := ours.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the child's child did not begin: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(ours); err != nil || len(rest) > 0 {
		t.Errorf("then it said %q (%v)", rest, err)
	}
	_ = parent.Wait()
}
