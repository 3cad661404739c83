package kafkatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

// Node is one broker of a cluster. Its methods must be called by one goroutine.
type Node struct {
	id             int
	dir            string
	clientAddr     string
	controllerAddr string
	mutualAddr     string // of a secure cluster
	cluster        *Cluster
	process        *exec.Cmd // nil: not running
	exited         chan struct{}
	remote         *remote // of another process; nil: ours
}

// actions are the operations on a broker, by the names in requests between processes.
var actions = map[string]func(*Node) error{
	"start":  (*Node).Start,
	"kill":   (*Node).Kill,
	"stop":   (*Node).Stop,
	"pause":  (*Node).Pause,
	"resume": (*Node).Resume,
}

// ID returns the broker's id in the cluster.
func (n *Node) ID() int { return n.id }

// Addr returns its address for clients.
func (n *Node) Addr() string { return n.clientAddr }

// java returns a JVM command that starts quickly and stays small: brokers of tests live for
// a minute and share two cores.
func (n *Node) java(main string, args ...string) *exec.Cmd {
	// #nosec G204 -- a fixed program; what varies is chosen in this package
	cmd := exec.Command("java", append([]string{
		"-Xms96m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dlog4j2.configurationFile=" + n.cluster.loggingFile(),
		"-cp", filepath.Join(n.cluster.jars, "*"), main,
	}, args...)...)
	cmd.SysProcAttr = subprocess.Killed()
	return cmd
}

func (n *Node) propertiesFile() string { return filepath.Join(n.dir, "server.properties") }

// LogFile returns the path of the broker's log.
func (n *Node) LogFile() string { return filepath.Join(n.dir, "log.txt") }

// format makes its data folder.
func (n *Node) format() error {
	if err := os.MkdirAll(n.dir, 0o750); err != nil {
		return err
	}
	if err := writeProperties(n.propertiesFile(), n.cluster.properties(n)); err != nil {
		return err
	}
	out, err := n.java("kafka.tools.StorageTool", "format",
		"-t", n.cluster.id, "-c", n.propertiesFile()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("formatting broker %d: %w\n%s", n.id, err, out)
	}
	return nil
}

// Start starts the broker, and does not wait for it: see [Cluster.AwaitBrokers].
func (n *Node) Start() error {
	if n.remote != nil {
		return n.remote.do(n, "start")
	}
	if n.process != nil {
		return fmt.Errorf("broker %d runs already", n.id)
	}
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own file descriptor
	cmd := n.java("kafka.Kafka", n.propertiesFile())
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting broker %d (is Java 17 installed?): %w", n.id, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // usually killed
		close(exited)
	}()
	n.process, n.exited = cmd, exited
	return nil
}

// Kill ends the broker at once, as a power cut would.
func (n *Node) Kill() error { return n.end("kill", syscall.SIGKILL) }

// Stop makes the broker move its leaderships and shut down.
func (n *Node) Stop() error { return n.end("stop", syscall.SIGTERM) }

func (n *Node) end(what string, signal syscall.Signal) error {
	if n.remote != nil {
		return n.remote.do(n, what)
	}
	if n.process == nil {
		return nil
	}
	if err := n.signal(what, signal); err != nil {
		return err
	}
	<-n.exited
	n.process = nil
	return nil
}

// Pause stops the broker's process, with its connections open, until Resume.
func (n *Node) Pause() error { return n.signal("pause", syscall.SIGSTOP) }

// Resume continues a paused broker.
func (n *Node) Resume() error { return n.signal("resume", syscall.SIGCONT) }

func (n *Node) signal(what string, signal syscall.Signal) error {
	if n.remote != nil {
		return n.remote.do(n, what)
	}
	if n.process == nil {
		return fmt.Errorf("broker %d does not run", n.id)
	}
	if err := n.process.Process.Signal(signal); err != nil {
		return fmt.Errorf("sending %s to broker %d: %w", signal, n.id, err)
	}
	return nil
}
