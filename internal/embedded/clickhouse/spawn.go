package clickhouse

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stderrMax = 8 << 10 // how much of a child's output is kept

	// stopMax is the child's own limit plus a margin. After that, the child is killed.
	stopMax = childStopMax + 2*time.Second
)

type child struct {
	cmd   *exec.Cmd
	input *os.File // the child exits when this pipe is closed
	said  *tail    // only read after exited is closed
	// exited is closed after the process has exited and err is set.
	exited chan struct{}
	err    error
}

func spawn(p Program, f folder, l listen, database string) (*child, error) {
	args := []string{
		"--config-file=" + f.config(), "--log-level=warning", "--query",
		serveQuery(database),
	}
	program := p.Binary
	if p.Binary != "" {
		args = append([]string{"local"}, args...)
	} else {
		program, args = selfExecutable, append([]string{ChildArg, p.Library}, args...)
	}
	args, err := confinedCommand(p, f, l, program, args)
	if err != nil {
		return nil, err
	}
	// #nosec G204 -- this very program, which becomes the engine.
	cmd := exec.Command(selfExecutable, args...)
	cmd.Dir = string(f)
	cmd.Env = childEnvironment()
	// A separate process group, so that a terminal's signals only go to the parent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c := &child{cmd: cmd, said: &tail{max: stderrMax}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.said, c.said
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the pipe to the ClickHouse engine: %w", err)
	}
	defer r.Close()
	cmd.Stdin, c.input = r, w
	cmd.WaitDelay = time.Second // don't wait for other processes that may hold its output open
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("starting the ClickHouse engine %s: %w", p, err)
	}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	if err := writeChildRecord(f, cmd.Process.Pid); err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

// lower lowers the priority of all of a child's threads, including future ones, below this
// process's. It is called after the child accepts connections, because it cannot be undone and
// would delay the start on a busy machine. If the system refuses, nothing changes.
func (c *child) lower(niceness int) {
	if own, err := ownNiceness(); err == nil && niceness > 0 {
		_ = unix.Setpriority(unix.PRIO_PGRP, c.cmd.Process.Pid, min(own+niceness, maxNiceness))
	}
}

// childEnvironment passes on the variables that a process needs, but none of our secrets.
func childEnvironment() []string {
	env := []string{childVariable + "=1", "TZ=UTC"}
	for _, name := range []string{
		"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
	} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (c *child) stop() error {
	c.input.Close()
	timer := time.NewTimer(stopMax)
	defer timer.Stop()
	select {
	case <-c.exited:
		return nil
	case <-timer.C:
		c.kill()
		return fmt.Errorf("the ClickHouse engine (process %d) did not end within %s and was killed",
			c.cmd.Process.Pid, stopMax)
	}
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
	c.input.Close()
}

// thrown matches an exception of ClickHouse, which a stack trace follows.
var thrown = regexp.MustCompile(`(Code: \d+\. )?(DB|Poco)::Exception.*`)

// lastWords returns an error with a child's first exception, or else the end of its output.
func (c *child) lastWords(f folder) error {
	how := "exited"
	if c.err != nil {
		how = c.err.Error()
	}
	said, _, _ := strings.Cut(
		cmp.Or(thrown.FindString(c.said.String()), lastLines(c.said.String(), 2)), ", Stack trace")
	if said != "" {
		how += ": " + said
	}
	return fmt.Errorf("the ClickHouse engine ended (%s); see %s", how, f.log())
}
