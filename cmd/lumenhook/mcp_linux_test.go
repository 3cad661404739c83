package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// A line that is too long ends the program with the reason.
func TestAnAssistantThatAsksTooMuch(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo")
	defer s.interrupt()
	a := s.askByHand()
	a.writes(`{"jsonrpc":"2.0","id":1,"method":"nothing"}`)
	if answer := a.reads(); answer.Error == nil || !strings.Contains(answer.Error.Message, "nothing") {
		t.Errorf("an unknown method is answered by %+v", answer)
	}
	mebibyte := strings.Repeat(" ", 1<<20)
	most := 0
	for range 1 << 10 { // 1 GiB in one line, of which it reads only the beginning
		most = max(most, a.mostMemory())
		if _, err := io.WriteString(a.in, mebibyte); err != nil {
			break
		}
	}
	if err := a.cmd.Wait(); err == nil || !strings.Contains(a.said.String(), "maximum line length") {
		t.Errorf("a line that is too long ends it with %v: %s", err, a.said)
	}
	if t.Logf("at most %d MiB of memory", most>>10); most == 0 || most > 512<<10 {
		t.Errorf("it has had %d KiB of memory", most)
	}
}

// The program must stop even if its client reads nothing.
func TestAnAssistantThatReadsNothingHoldsUpNoEnd(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo")
	defer s.interrupt()
	a := s.askByHand()
	var sent atomic.Int64
	go func() {
		for id := range 10_000 {
			if _, err := io.WriteString(a.in, pageRequest(id)); err != nil {
				return // the program has ended
			}
			sent.Add(1)
		}
	}()
	s.eventually("it waits to be read", func() bool { return sent.Load() > 16 })
	a.ends(syscall.SIGTERM)
}

func pageRequest(id int) string {
	begin := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/read",`+
		`"params":{"uri":"lumenhook://docs/commands.md"`, id)
	return begin + strings.Repeat(" ", 4<<10-3-len(begin)) + "}}\n"
}

type handAsked struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said *testkit.Buffer
}

type handAnswer struct {
	ID    any
	Error *struct{ Message string }
}

func (s *testService) askByHand() *handAsked {
	s.t.Helper()
	a := &handAsked{t: s.t.(*testing.T), said: &testkit.Buffer{}}
	a.cmd = program("mcp", "--data-dir", s.dir)
	a.cmd.Stderr, a.cmd.SysProcAttr = a.said, subprocess.Killed()
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		a.t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	a.out = bufio.NewReader(out)
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.writes(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if answer := a.reads(); answer.Error != nil {
		a.t.Fatalf("%+v", answer)
	}
	a.writes(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

// mostMemory returns the program's peak memory in KiB, or 0 once it has exited. The system's
// figures for an exited process include the memory of the test that started it.
func (a *handAsked) mostMemory() (kib int) {
	a.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		a.t.Fatal(err)
	}
	if _, most, found := strings.Cut(string(status), "\nVmHWM:"); found {
		if _, err := fmt.Sscan(most, &kib); err != nil {
			a.t.Fatal(err)
		}
	}
	return kib
}

func (a *handAsked) writes(line string) {
	a.t.Helper()
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		a.t.Fatalf("%v: %s", err, a.said)
	}
}

func (a *handAsked) reads() (answer handAnswer) {
	a.t.Helper()
	line, err := a.out.ReadBytes('\n')
	if err != nil {
		a.t.Fatalf("%v: %s", err, a.said)
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		a.t.Fatalf("%v: %.200s", err, line)
	}
	return answer
}

func (a *handAsked) ends(signal os.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(signal); err != nil {
		a.t.Fatal(err)
	}
	if err := a.cmd.Wait(); err != nil {
		a.t.Errorf("it ends with %v: %s", err, a.said)
	}
}
