package task_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// The tests in this file pause complete processes and resume them, because a paused process does
// not know what has happened in the meantime. The test binary runs itself again as the owner of
// partitions. The broker stays in the test's own process.

// ownerVariable turns the test binary into an owner. Its value says how the owner gets its
// partitions.
const ownerVariable = "LUMENHOOK_TEST_OWNER"

const (
	// ownerAlone runs the task of partition 0 without asking a group.
	ownerAlone = "alone"
	// ownerMember runs the tasks of the partitions that its group assigns.
	ownerMember = "member"
)

const writerHeader = "writer"

// tickEvery is how often an owner writes without inputs, because fencing by input positions would
// not stop a turn that consumes nothing. It leaves no transaction open most of the time. An owner
// that is paused within a transaction would be fenced by the transaction's timeout anyway.
const tickEvery = 100 * time.Millisecond

func TestMain(m *testing.M) {
	if how := os.Getenv(ownerVariable); how != "" {
		if err := own(how, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Println("ended:", err)
			os.Exit(3)
		}
		return
	}
	brokertest.Main(m)
}

// own is the main function of an owner. It exits when its standard input is closed, so that no
// owner outlives the test.
func own(how, name, brokers, prefix, dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	o := &owner{name: name, dir: dir, cluster: kafka.Cluster{
		Brokers:  strings.Split(brokers, ","),
		Prefix:   prefix,
		ClientID: name,
		Logger:   slog.New(slog.NewTextHandler(os.Stdout, nil)),
	}}
	if how == ownerAlone {
		return o.task(0).Run(context.Background(), ctx.Done())
	}
	tasks := task.NewTasks(o.task, o.cluster.Logger)
	membership, err := o.cluster.Join(kafka.MembershipConfig{
		Group:    sumGroup,
		Topic:    numbersTopic,
		Now:      time.Now,
		Assigned: tasks.Assigned,
		Revoked:  tasks.Revoked,
		Lost:     tasks.Lost,
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return membership.Leave(context.Background())
}

type owner struct {
	name    string
	dir     string
	cluster kafka.Cluster
	tasks   atomic.Int64
}

// task creates a summer that signs its records with the owner's name and the number of the task. It
// also writes a tick every tickEvery.
func (o *owner) task(p int32) task.Runner {
	writer := fmt.Sprintf("%s/%d", o.name, o.tasks.Add(1))
	dir := filepath.Join(o.dir, strconv.Itoa(int(p)))
	newHandler := func() task.Handler[store.Claimed, none] { return &signer{writer: writer} }
	return task.NewTask(summing(o.cluster, dir, p, newHandler))
}

type signer struct {
	summer
	writer string
	ticks  int
	nextAt int64
}

func (s *signer) Turn(t *task.Turn, _ []none) error {
	for _, r := range t.Inputs[0] {
		seen, err := t.Batch.Get(append([]byte{store.FirstKey, 'k'}, r.Key...))
		if err != nil {
			return err
		}
		if seen == nil {
			if err := s.write(t, string(r.Key), string(r.Value)); err != nil {
				return err
			}
		}
	}
	if t.NowMillis < s.nextAt {
		return nil
	}
	s.ticks++
	s.nextAt = t.NowMillis + tickEvery.Milliseconds()
	return s.write(t, fmt.Sprintf("tick-%s-%d", s.writer, s.ticks), "0")
}

func (s *signer) write(t *task.Turn, key, value string) error {
	out := kafka.Record{
		Topic:   sumsTopic,
		Key:     []byte(key),
		Value:   []byte(value),
		Headers: []kafka.Header{{Key: writerHeader, Value: []byte(s.writer)}},
	}
	t.Append(out)
	return s.Fold(t.Batch, out)
}

func (s *signer) AfterCommit(task.After) ([]store.Claimed, int64, error) {
	return nil, s.nextAt, nil
}

type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	mu   sync.Mutex
	said []string
	over chan struct{}
	err  error // the exit error, set before over is closed
}

func (r *rig) start(how, name string) *process {
	r.t.Helper()
	cmd := exec.Command(os.Args[0], name, strings.Join(r.cluster.Brokers, ","), r.cluster.Prefix,
		r.t.TempDir())
	p := &process{
		t:    r.t,
		cmd:  cmd,
		over: make(chan struct{}),
	}
	p.cmd.Env = append(os.Environ(), ownerVariable+"="+how)
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(p.over)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.mu.Lock()
			p.said = append(p.said, lines.Text())
			p.mu.Unlock()
		}
		p.err = p.cmd.Wait()
	}()
	r.t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		_ = stdin.Close()
		<-p.over
		if r.t.Failed() {
			r.t.Logf("%s said:\n%s", name, p.output())
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
}

// pause stops the process with SIGSTOP and waits until it has stopped.
func (p *process) pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	testkit.Eventually(p.t, "the process stands still", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			p.t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(state), ") ")
		return strings.HasPrefix(after, "T")
	})
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "\n")
}

type written struct{ key, writer string }

func (r *rig) history(p int32) []written {
	r.t.Helper()
	var all []written
	for _, rec := range r.read(sumsTopic) {
		if rec.Partition == p {
			all = append(all, written{string(rec.Key), rec.Header(writerHeader)})
		}
	}
	return all
}

// writers lists the writers of a history, with one entry per run of records.
func writers(history []written) []string {
	var list []string
	for _, w := range history {
		list = append(list, w.writer)
	}
	return slices.Compact(list)
}

// wroteSince counts the records that writers with this name have added to an earlier history.
func wroteSince(history, earlier []written, name string) int {
	n := 0
	for _, w := range history[len(earlier):] {
		if strings.HasPrefix(w.writer, name+"/") {
			n++
		}
	}
	return n
}

// wantOneAtATime fails if a writer wrote after another had taken over, or if anything was written
// twice.
func wantOneAtATime(t *testing.T, history []written) {
	t.Helper()
	had := make(map[string]bool)
	for _, w := range writers(history) {
		if had[w] {
			t.Errorf("%s wrote after another had taken over: %v", w, writers(history))
		}
		had[w] = true
	}
	count := make(map[string]int)
	for _, w := range history {
		if count[w.key]++; count[w.key] == 2 {
			t.Errorf("%s was written twice", w.key)
		}
	}
}

// A process is paused while it owns a partition and resumes after another process has taken over.
// It still believes that it is the owner. Its writes must be refused, even in turns that consumed
// nothing.
func TestPausedOwnerIsFenced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	former := r.start(ownerAlone, "former")
	r.feed(1, 50)
	wrote := func(name string, earlier []written) func() bool {
		return func() bool { return wroteSince(r.history(0), earlier, name) > 2 }
	}
	testkit.Eventually(t, "the first owner writes", wrote("former", nil))
	former.pause()

	r.start(ownerAlone, "next")
	r.feed(51, 100)
	testkit.Eventually(t, "the next owner writes", wrote("next", r.history(0)))

	former.signal(syscall.SIGCONT)
	select {
	case <-former.over:
	case <-time.After(brokertest.Patience):
		t.Fatal("the former owner was not fenced: it works on")
	}
	if out := former.output(); !strings.Contains(out, "INVALID_PRODUCER_EPOCH") &&
		!strings.Contains(out, "PRODUCER_FENCED") {
		t.Errorf("the former owner ended of something else: %v: %s", former.err, out)
	}
	testkit.Eventually(t, "the next owner writes on", wrote("next", r.history(0)))
	history := r.history(0)
	wantOneAtATime(t, history)
	if got := writers(history); !slices.Equal(got, []string{"former/1", "next/1"}) {
		t.Errorf("the partition was written by %v, want the former owner and then the next", got)
	}
}

// This is TestPausedOwnerIsFenced with a group that assigns the partitions. The group reassigns
// them when a member is paused for longer than its session, and readmits the member when it
// resumes.
func TestPausedMemberIsFenced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	former := r.start(ownerMember, "former")
	r.feed(1, 50)
	both := func(name string, earlier [2][]written) func() bool {
		return func() bool {
			for p := range int32(2) {
				if wroteSince(r.history(p), earlier[p], name) <= 2 {
					return false
				}
			}
			return true
		}
	}
	now := func() [2][]written { return [2][]written{r.history(0), r.history(1)} }
	testkit.Eventually(t, "the first member writes to both partitions", both("former", now()))
	former.pause()

	r.start(ownerMember, "next")
	r.feed(51, 100)
	testkit.Eventually(t, "the next member writes to both partitions", both("next", now()))

	former.signal(syscall.SIGCONT)
	resumed := now()
	r.feed(101, 150)
	// The group assigns a partition to the former member again, to a new task.
	testkit.Eventually(t, "the former member takes part again", func() bool {
		return wroteSince(r.history(0), resumed[0], "former") > 2 ||
			wroteSince(r.history(1), resumed[1], "former") > 2
	})
	for p := range int32(2) {
		wantOneAtATime(t, r.history(p))
	}
	r.wantNumbers(150)
}

func (r *rig) wantNumbers(total int) {
	r.t.Helper()
	testkit.Eventually(r.t, fmt.Sprintf("%d numbers in the journal", total), func() bool {
		numbers := 0
		for p := range int32(2) {
			for _, w := range r.history(p) {
				if strings.HasPrefix(w.key, "number-") {
					numbers++
				}
			}
		}
		return numbers >= total
	})
}
