package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

const (
	readyWait = 3 * time.Minute
	stopWait  = 2 * time.Minute
)

// runInfo is the program's run.json.
type runInfo struct {
	APIURL       string   `json:"apiUrl"`
	MetricsURL   string   `json:"metricsUrl"`
	KafkaBrokers []string `json:"kafkaBrokers"`
	PID          int      `json:"pid"`
	Stellar      struct {
		RPCURL       string `json:"rpcUrl"`
		Passphrase   string `json:"networkPassphrase"`
		FriendbotURL string `json:"friendbotUrl"`
	} `json:"stellar"`
}

// service is the program on its data folder. Operations on the process hold turn. Requests get its
// current addresses from await.
type service struct {
	w    *world
	bin  string
	dir  string
	args []string

	turn sync.Mutex // held by operations on the process

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan error
	meant  bool // the exit is intended
	up     chan struct{}
	info   runInfo
	output *output
	kills  []span    // kills, each from when attempts may be lost because of it
	held   time.Time // since when a request has been held; zero if none is
	pauses []span
	downs  []span // from each exit until it was ready again
}

type span struct{ from, to time.Time }

func (s span) touches(from, to time.Time) bool { return !s.to.Before(from) && !s.from.After(to) }

// output writes the program's output to a file and counts texts in it.
type output struct {
	mu   sync.Mutex
	file *os.File
	all  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all.Write(p)
	return o.file.Write(p)
}

func (o *output) count(text string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Count(o.all.Bytes(), []byte(text))
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.all.Bytes()
	return string(text[max(0, len(text)-3000):])
}

func newService(w *world, bin, name string, args ...string) (*service, error) {
	s := &service{w: w, bin: bin, dir: filepath.Join(w.dir, name), up: make(chan struct{})}
	file, err := os.Create(s.dir + "-output.txt")
	if err != nil {
		return nil, err
	}
	s.output = &output{file: file}
	s.args = []string{
		"run", "--data-dir", s.dir, "--log-format", "text", "--no-demo", "--egress-ports", "1-65535",
		"--retry-schedule", retrySchedule,
		"--attempt-timeout", attemptTimeout.String(), "--disable-after", fmt.Sprint(disableAfter),
		"--fault-hold-file", s.holdFile(),
		// The very first ledger is read before any lie, so nothing could detect that it is wrong.
		"--start", "2",
	}
	s.args = append(s.args, args...)
	for _, part := range []string{
		"api", "metrics", "kafka", "stellar", "receiver", "clickhouse-native", "clickhouse-http",
	} {
		s.args = append(s.args, "--"+part+"-listen", "127.0.0.1:0")
	}
	return s, nil
}

// lies returns wrong responses of the network's RPC as a function of the seed: every kind that it
// supports, in some order, with a few responses each. They recur after each start of the program.
func lies(seed uint64) string {
	kinds := []string{
		"errors", "garbage", "gap", "behind", "reset", "frozen", "ahead", "form", "unauthorized", "quota",
		"hang",
	}
	draw := rand.New(rand.NewPCG(seed, 38)) // #nosec G404 -- must repeat
	draw.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var faults []string
	ledger := 20
	for _, kind := range kinds {
		ledger += 1 + draw.IntN(20)
		faults = append(faults, fmt.Sprintf("%s@%dx%d", kind, ledger, 1+draw.IntN(3)))
	}
	return strings.Join(faults, ",")
}

func (s *service) holdFile() string { return s.dir + "-hold" }

func (s *service) start(ctx context.Context) error {
	cmd := exec.Command(s.bin, s.args...) // #nosec G204 -- the program under trial
	cmd.Stdout, cmd.Stderr = s.output, s.output
	cmd.SysProcAttr = subprocess.Killed()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("trial: starting the program: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	s.mu.Lock()
	s.cmd, s.exited, s.meant = cmd, exited, false
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		info, err := s.readInfo()
		if err == nil && info.PID == cmd.Process.Pid {
			s.mu.Lock()
			s.info = info
			if last := len(s.downs) - 1; last >= 0 {
				s.downs[last].to = time.Now()
			}
			close(s.up)
			s.mu.Unlock()
			go s.watch(cmd, exited)
			return nil
		}
		select {
		case err := <-exited:
			return fmt.Errorf("trial: the program ended before it was ready: %w\n%s", err, s.output.tail())
		case <-ctx.Done():
			return fmt.Errorf("trial: the program did not get ready\n%s", s.output.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *service) readInfo() (info runInfo, err error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "run.json"))
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	if network := s.w.network; network != nil && network != s {
		info.Stellar = network.info.Stellar
	}
	return info, err
}

// watch reports a violation if the process exits unexpectedly.
func (s *service) watch(cmd *exec.Cmd, exited chan error) {
	err := <-exited
	exited <- err
	s.mu.Lock()
	meant := s.meant || s.cmd != cmd
	s.mu.Unlock()
	if !meant {
		s.w.violate("RUN", "the program ended by itself (%v):\n%s", err, s.output.tail())
		s.w.stop() // nothing more can be learned
	}
}

// await returns the addresses of the program once it is running.
func (s *service) await(ctx context.Context) (runInfo, error) {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-up:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.info, nil
	case <-ctx.Done():
		return runInfo{}, ctx.Err()
	}
}

func (s *service) down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meant = true
	s.up = make(chan struct{})
	s.downs = append(s.downs, span{from: time.Now()})
}

func (s *service) kill() error {
	s.down()
	if err := s.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("trial: killing the program: %w", err)
	}
	<-s.exited
	s.mu.Lock()
	defer s.mu.Unlock()
	from, now := time.Now(), time.Now()
	if !s.held.IsZero() {
		from, s.held = s.held, time.Time{}
	}
	s.kills = append(s.kills, span{workedFor(lostByKill, from, s.pauses), now})
	return nil
}

// workedFor returns the time since which a program had been running for d, without pauses, until a
// point in time.
func workedFor(d time.Duration, until time.Time, pauses []span) time.Time {
	from := until.Add(-d)
	for _, p := range slices.Backward(pauses) { // latest first
		if p.touches(from, until) {
			from = from.Add(-p.to.Sub(p.from))
		}
	}
	return from
}

func (s *service) stop() error {
	s.down()
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return fmt.Errorf("trial: stopping the program: %w", err)
	}
	select {
	case err := <-s.exited:
		if err != nil {
			return fmt.Errorf("trial: the program did not stop in order: %w\n%s", err, s.output.tail())
		}
		return nil
	case <-time.After(stopWait):
		return errors.New("trial: the program did not stop\n" + s.output.tail())
	}
}

func (s *service) pause(length time.Duration) error {
	from := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("trial: pausing the program: %w", err)
	}
	time.Sleep(length)
	err := s.cmd.Process.Signal(syscall.SIGCONT)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses = append(s.pauses, span{from, time.Now()})
	return err
}

// hold makes the broker hold a request, and returns when it does. It returns false if no such
// request arrives in time.
func (s *service) hold(ctx context.Context, point string, length time.Duration) bool {
	before := s.output.count("FAULT: a request is held")
	draft := s.holdFile() + ".new"
	line := fmt.Sprintf("%s %s\n", point, length)
	if os.WriteFile(draft, []byte(line), 0o600) != nil || os.Rename(draft, s.holdFile()) != nil {
		return false
	}
	defer func() { _ = os.Remove(s.holdFile()) }()
	for until := time.Now().Add(holdWait); time.Now().Before(until) && ctx.Err() == nil; {
		if s.output.count("FAULT: a request is held") > before {
			s.mu.Lock()
			s.held = time.Now()
			s.mu.Unlock()
			return true
		}
		time.Sleep(2 * time.Millisecond)
	}
	return false
}

func (s *service) command(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.bin, append(args, "--data-dir",
		s.dir)...) // #nosec G204 -- as above
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("lumenhook %v: %w: %s", args, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, err
}

// lose removes a part of the data folder that can be rebuilt.
func (s *service) lose(part string) error { return os.RemoveAll(filepath.Join(s.dir, part)) }

// tear damages files of ClickHouse's parts, as power failures do: it truncates a third of the data
// files, removes a file from a third of the parts, or removes the directory of a part.
func (s *service) tear(n int) error {
	files, err := filepath.Glob(filepath.Join(s.dir, "clickhouse", "data", "store", "*", "*", "*",
		"data.bin"))
	if err != nil || len(files) == 0 {
		return err
	}
	how, at := n%3, n/3
	s.w.log("tear %d of %d parts", how, len(files))
	if how == 2 {
		return os.RemoveAll(filepath.Dir(files[at%len(files)]))
	}
	for i, file := range files {
		switch {
		case i%3 != at%3:
		case how == 0:
			err = errors.Join(err, os.Truncate(file, 7))
		default:
			beside, globbed := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
			err = errors.Join(err, globbed, os.Remove(beside[at%len(beside)]))
		}
	}
	return err
}

func (s *service) close() {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.meant = true
	s.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		<-exited
	}
	_ = s.output.file.Close()
}

// lostTo reports whether a kill excuses the loss of an attempt that started at a time.
func (s *service) lostTo(at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return touch(s.kills, at, at)
}

func touch(some []span, from, to time.Time) bool {
	return slices.ContainsFunc(some, func(s span) bool { return s.touches(from, to) })
}

// wasDown reports whether the program was down at any time after a point in time.
func (s *service) wasDown(after time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.downs, func(d span) bool {
		return d.to.IsZero() || d.to.After(after)
	})
}

// disturbed reports whether the program was killed or paused between two times.
func (s *service) disturbed(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return touch(s.kills, from, to) || touch(s.pauses, from, to)
}
