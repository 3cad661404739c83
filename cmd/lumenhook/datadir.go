package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/lumenhook/lumenhook/domain"
)

// dataDir is a locked data folder.
type dataDir struct {
	path string
	lock *flock.Flock
}

// openDataDir makes the folder if it is missing and locks it.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(filepath.Join(path, "secrets"), 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: making the data folder: %w", err)
	}
	lock := flock.New(filepath.Join(path, lockName))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("--data-dir: locking the data folder %s: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("the data folder %s is in use by another lumenhook: stop that one, or name another folder with --data-dir", path)
	}
	// Who waits for run.json learns from it that somebody is at work here.
	if err := os.WriteFile(lock.Path(), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return nil, fmt.Errorf("--data-dir: locking the data folder %s: %w", path, err)
	}
	return &dataDir{path: path, lock: lock}, nil
}

func (d *dataDir) join(parts ...string) string {
	return filepath.Join(append([]string{d.path}, parts...)...)
}

func (d *dataDir) close() error { return errors.Join(os.Truncate(d.lock.Path(), 0), d.lock.Unlock()) }

// secretsKept refuses a folder that has data and has lost what only its first
// start makes. With a new master key no endpoint's secret could be opened, and
// with a new API key nobody could reach the account that owns them.
func (d *dataDir) secretsKept() error {
	if _, err := os.Stat(d.join("broker")); err != nil {
		return nil // nothing was ever written, or starting the broker tells
	}
	for _, name := range []string{"master-key.json", "api-key"} {
		if _, elsewhere := os.LookupEnv(masterKeyVariable); elsewhere && name == "master-key.json" {
			continue
		}
		path := d.join("secrets", name)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is missing, and the data in %s cannot be used without it: restore it from a backup, or begin with another --data-dir", path, d.path)
		}
	}
	return nil
}

// apiKey reads the run's API key, or makes it: one for the public network is marked as
// live.
func (d *dataDir) apiKey(live bool) (string, error) {
	path := d.join("secrets", "api-key")
	data, err := os.ReadFile(path)
	if err == nil {
		key := strings.TrimSpace(string(data))
		if !domain.WellFormedAPIKey(key) {
			return "", fmt.Errorf("%s does not hold an API key: restore it, or begin with another --data-dir", path)
		}
		return key, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading the API key: %w", err)
	}
	var entropy [32]byte
	rand.Read(entropy[:])
	key := domain.NewAPIKey(live, entropy)
	return key, writeFile(path, []byte(key+"\n"))
}

// runFile is run.json: how to reach a running service.
type runFile struct {
	APIURL       string         `json:"apiUrl"`
	APIKey       string         `json:"apiKey"`
	AccountID    string         `json:"accountId"`
	KafkaBrokers []string       `json:"kafkaBrokers"`
	Kafka        runKafka       `json:"kafka"`
	ClickHouse   *runClickHouse `json:"clickhouse"`
	Stellar      runStellar     `json:"stellar"`
	Receiver     *runReceiver   `json:"receiver"`
	CAFile       string         `json:"caFile"`
	EgressPorts  string         `json:"egressPorts"`
	MetricsURL   string         `json:"metricsUrl,omitempty"`
	PID          int            `json:"pid"`
}

type runClickHouse struct {
	Native   string   `json:"native"`
	HTTP     string   `json:"http"`
	Database string   `json:"database"`
	runLogin          // who may fill the database
	Reader   runLogin `json:"reader"` // who may read it
}

type runStellar struct {
	RPCURL            string `json:"rpcUrl,omitempty"`
	NetworkPassphrase string `json:"networkPassphrase"`
	FriendbotURL      string `json:"friendbotUrl,omitempty"` // of a development network
}

type runReceiver struct {
	URL string `json:"url"`
}

const (
	runFileName = "run.json"
	lockName    = "lock"
)

func (d *dataDir) writeRunFile(r runFile) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(d.join(runFileName), append(data, '\n'))
}

// readRunFile finds the service that runs on a data folder.
func readRunFile(dir string) (runFile, error) {
	var r runFile
	if dir == "" {
		return r, fmt.Errorf("--data-dir %q: %w", dir, errNoFolder)
	}
	data, err := os.ReadFile(filepath.Join(dir, runFileName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return r, whyNotRunning(dir)
	case errors.Is(err, os.ErrPermission):
		return r, fmt.Errorf("%w: the data folder is another user's; run this as that user", err)
	case err != nil:
		return r, fmt.Errorf("--data-dir: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("reading %s: %w", filepath.Join(dir, runFileName), err)
	}
	if !alive(r.PID) {
		return r, fmt.Errorf("the service of %s has ended without being stopped: start it again with `lumenhook run --data-dir %s`", dir, dir)
	}
	return r, nil
}

// whyNotRunning says what a folder without run.json is.
func whyNotRunning(dir string) error {
	pid, err := os.ReadFile(filepath.Join(dir, lockName))
	owner, _ := strconv.Atoi(string(pid))
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: the data folder is another user's; run this as that user", err)
	case err == nil && owner > 0 && alive(owner):
		return fmt.Errorf("the service of %s is starting or stopping (process %d): repeat this when it says ready", dir, owner)
	case err == nil:
		return fmt.Errorf("the service of %s has been stopped: start it again with `lumenhook run --data-dir %s`", dir, dir)
	}
	where, err := filepath.Abs(dir)
	if err != nil {
		where = dir
	}
	return fmt.Errorf("no service has run in %s: start one with `lumenhook run --data-dir %s`, or name its folder with --data-dir", where, dir)
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// writeFile writes a file that only its owner may read, whole or not at all.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// freeAddress is the address to listen on: a default one that is taken is
// stepped over to a free port, one that was asked for is left to fail.
func freeAddress(address string, asked bool, note func(from, to string)) string {
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close()
		return address
	}
	if asked || !errors.Is(err, syscall.EADDRINUSE) {
		return address
	}
	host, _, _ := net.SplitHostPort(address)
	other, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return address
	}
	defer other.Close()
	note(address, other.Addr().String())
	return other.Addr().String()
}

func parseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return level, errors.New("must be debug, info, warn or error")
	}
	return level, nil
}
