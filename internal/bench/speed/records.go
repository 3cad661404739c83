package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

// record is what one step of one repetition measured. It is appended to a file when the step
// ends, so that a run that is interrupted keeps what it has.
type record struct {
	Sitting    string    `json:"sitting"` // when the first of those that belong together began
	Stamp      stamp     `json:"stamp"`
	Line       string    `json:"line"`
	Step       string    `json:"step"`
	Repetition int       `json:"repetition"`
	At         time.Time `json:"at"`
	Seconds    float64   `json:"seconds"`

	Load    measuring.Load `json:"load"`
	Deliver []deliverRun   `json:"deliver,omitempty"`
	Latency []latencyRun   `json:"latency,omitempty"`
	Profile []profileRun   `json:"profile,omitempty"`
	Figures []figure       `json:"figures,omitempty"`
	// Fault is why it was not measured, or not all of it.
	Fault string `json:"fault,omitempty"`
}

// stamp is what figures must share to stand in one table.
type stamp struct {
	Commit   string   `json:"commit"`
	Machine  string   `json:"machine"`
	Cores    int      `json:"cores"`
	Kernel   string   `json:"kernel"`
	Go       string   `json:"go"`
	Settings settings `json:"settings"`
}

// settings are the flags that a figure depends on.
type settings struct {
	Warm       int           `json:"warm"`
	Deliveries int           `json:"deliveriesAtLeast"`
	Time       time.Duration `json:"timeAtLeast"`
	Backlog    int           `json:"backlog"`
	PaceTime   time.Duration `json:"timeAtARate"`
	FloorTime  time.Duration `json:"timeOfAFloor"`
	CloseTime  time.Duration `json:"timeOfPayments"`
	Past       int           `json:"past"`
	Deep       int           `json:"deepBacklog"`
	Waiting    int           `json:"waiting"`
	Healthy    int           `json:"healthy"`
	Watches    int           `json:"watches"`
	Facts      int           `json:"factsOfARebuild"`
	BodyBytes  int           `json:"bodyBytes"`
}

func stampOf(ctx context.Context, o options) stamp {
	return stamp{
		Commit:   commit(ctx),
		Machine:  measuring.Machine(),
		Cores:    runtime.NumCPU(),
		Kernel:   kernel(),
		Go:       runtime.Version(),
		Settings: o.settings,
	}
}

// commit is the working copy's, and says when that has changes.
func commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain",
		"--untracked-files=no", "--", "*.go", "go.mod", "go.sum").Output()
	if err != nil || len(changes) > 0 {
		name += ", changed"
	}
	return name
}

func kernel() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return "unknown"
	}
	var release []byte
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		release = append(release, byte(c)) // #nosec G115 -- letters
	}
	return runtime.GOOS + " " + string(release)
}

// journal is the file of records.
type journal struct {
	file    string // empty: nothing is kept
	sitting string
	records []record // of this sitting
}

// openJournal begins a sitting, or continues the latest of the same stamp.
func openJournal(file string, resume bool, s stamp) (*journal, error) {
	j := &journal{file: file, sitting: time.Now().UTC().Format(time.RFC3339Nano)}
	if file == "" || !resume {
		return j, nil
	}
	all, err := readRecords(file)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(all) {
		if r.Stamp == s {
			j.sitting = r.Sitting
			break
		}
	}
	for _, r := range all {
		if r.Sitting == j.sitting {
			j.put(r)
		}
	}
	return j, nil
}

// put keeps a record, in place of one of the same step and repetition.
func (j *journal) put(r record) {
	j.records = slices.DeleteFunc(j.records, func(old record) bool {
		return old.Step == r.Step && old.Repetition == r.Repetition
	})
	j.records = append(j.records, r)
}

func readRecords(file string) (all []record, err error) {
	f, err := os.Open(file) // #nosec G304 -- it is asked for
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", n, file, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// has reports whether a step was measured in this repetition.
func (j *journal) has(step string, repetition int) bool {
	return slices.ContainsFunc(j.records, func(r record) bool {
		return r.Step == step && r.Repetition == repetition && r.Fault == ""
	})
}

// add keeps a record, and appends it to the file.
func (j *journal) add(r record) error {
	r.Sitting = j.sitting
	j.put(r)
	if j.file == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(j.file), 0o750); err != nil { // #nosec G703 -- asked for
		return err
	}
	// #nosec G304 G703 -- it is asked for
	f, err := os.OpenFile(j.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// took is how long a step took on average in this sitting; zero: nobody knows.
func (j *journal) took(step string) time.Duration {
	var sum, n float64
	for _, r := range j.records {
		if r.Step == step && r.Fault == "" {
			sum, n = sum+r.Seconds, n+1
		}
	}
	if n == 0 {
		return 0
	}
	return time.Duration(sum / n * float64(time.Second))
}
