package kafkatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

// Node is a broker of a cluster. Its methods must not be called concurrently.
type Node struct {
	id             int
	dir            string
	clientAddr     string
	controllerAddr string
	mutualAddr     string // used if the cluster is secure
	cluster        *Cluster
	process        *exec.Cmd // nil if not running
	exited         chan struct{}
	remote         *remote // set if another process runs the broker
}

var actions = map[string]func(*Node) error{
	"start":  (*Node).Start,
	"kill":   (*Node).Kill,
	"stop":   (*Node).Stop,
	"pause":  (*Node).Pause,
	"resume": (*Node).Resume,
}

// ID returns the broker's id in the cluster.
func (n *Node) ID() int { return n.id }

// Addr returns the broker's address for clients.
func (n *Node) Addr() string { return n.clientAddr }

// java returns a JVM command tuned for a quick start and a small footprint, because test brokers
// live for about a minute and share two cores.
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

// Start starts the broker without waiting until it is ready. See [Cluster.AwaitBrokers].
func (n *Node) Start() error {
	if n.remote != nil {
		return n.remote.do(n, "start")
	}
	if n.process != nil {
		return fmt.Errorf("broker %d is already running", n.id)
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
		_ = cmd.Wait() // usually an error, because the broker was killed
		close(exited)
	}()
	n.process, n.exited = cmd, exited
	return nil
}

// Kill stops the broker immediately, as a power cut would.
func (n *Node) Kill() error { return n.end("kill", syscall.SIGKILL) }

// Stop shuts the broker down cleanly: it hands over its leaderships first.
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

// Pause suspends the broker until Resume. Its connections stay open.
func (n *Node) Pause() error { return n.signal("pause", syscall.SIGSTOP) }

// Resume resumes a paused broker.
func (n *Node) Resume() error { return n.signal("resume", syscall.SIGCONT) }

func (n *Node) signal(what string, signal syscall.Signal) error {
	if n.remote != nil {
		return n.remote.do(n, what)
	}
	if n.process == nil {
		return fmt.Errorf("broker %d is not running", n.id)
	}
	if err := n.process.Process.Signal(signal); err != nil {
		return fmt.Errorf("sending %s to broker %d: %w", signal, n.id, err)
	}
	return nil
}
