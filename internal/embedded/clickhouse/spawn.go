package clickhouse

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stderrMax = 8 << 10 // bytes kept of a child's error output

	// stopMax is the child's own limit plus a margin; then it is killed.
	stopMax = childStopMax + 2*time.Second
)

// child is one running engine process.
type child struct {
	cmd   *exec.Cmd
	input *os.File // the child ends when this pipe is closed
	said  *tail    // read only after exited
	// exited is closed when the process is gone and waited for; err is then set.
	exited chan struct{}
	err    error
}

// spawn starts the program on a prepared data folder and records it there.
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
	// A separate process group: a terminal's signals go only to the parent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c := &child{cmd: cmd, said: &tail{max: stderrMax}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.said, c.said
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the pipe to the ClickHouse engine: %w", err)
	}
	defer r.Close()
	cmd.Stdin, c.input = r, w
	cmd.WaitDelay = time.Second // never wait for other processes that may hold its output
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

// lower gives all threads of a child, and the threads that they start later, a priority below this
// process's. It cannot be undone, and would delay a start on a busy machine, so it is applied after
// the child serves. If the system refuses, the child continues unchanged.
func (c *child) lower(niceness int) {
	if own, err := ownNiceness(); err == nil && niceness > 0 {
		_ = unix.Setpriority(unix.PRIO_PGRP, c.cmd.Process.Pid, min(own+niceness, maxNiceness))
	}
}

// childEnvironment passes on the variables that a process needs and none of our secrets.
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

// stop ends the child gracefully, and by force if it takes too long.
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

// kill ends the child at once and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
	c.input.Close()
}

// lastWords returns how a child ended, with the end of its output.
func (c *child) lastWords(f folder) error {
	how := "exited"
	if c.err != nil {
		how = c.err.Error()
	}
	if said := lastLines(c.said.String(), 2); said != "" {
		how += ": " + said
	}
	return fmt.Errorf("the ClickHouse engine ended (%s); see %s", how, f.log())
}
