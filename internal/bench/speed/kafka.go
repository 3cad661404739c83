package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/freeport"
	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

const realBrokerCount = 3

// kafkaSteps are one: the deliver path of the real program (`lumenhook serve` with the roles
// engine, projector and api in one process) on three brokers of Apache Kafka, which write each
// record on all three before it counts (acks=all), and are on this machine, too.
func (l *lab) kafkaSteps() []step {
	return []step{{
		name: "kafka",
		takes: 45*time.Second + l.deliverTakes(l.opt.Deliveries) + l.opt.FloorTime +
			time.Duration(len(l.opt.rates))*(3*l.opt.PaceTime+2*l.opt.rest+4*time.Second),
		run: func(ctx context.Context, n int) (got record, err error) {
			before := measuring.Descendants(os.Getpid())
			brokers, err := kafkatest.Start(ctx, kafkatest.Config{
				Dir:     filepath.Join(l.dir, "kafka-"+strconv.Itoa(l.services)),
				Brokers: realBrokerCount,
			})
			if err != nil {
				return got, err
			}
			defer func() { err = errors.Join(err, brokers.Close()) }()
			started := measuring.Descendants(os.Getpid())
			s, err := l.serveOn(ctx, brokers.Addrs())
			if err != nil {
				return got, err
			}
			s.brokers = slices.DeleteFunc(started,
				func(pid int) bool { return slices.Contains(before, pid) })
			got, err = l.onKafka(ctx, s, n)
			return got, errors.Join(err, s.stop())
		},
	}}
}

// onKafka measures times at rest first, and then full speed.
func (l *lab) onKafka(ctx context.Context, s *service, n int) (got record, err error) {
	run := deliverRun{
		Line:       deliverLine(latencyEndpoints, false) + ", " + realBrokers,
		Endpoints:  latencyEndpoints,
		RealKafka:  true,
		Repetition: n,
	}
	if run.NetHTTP, err = l.postFloor(ctx, loadPosts); err != nil {
		return got, err
	}
	if err := l.warm(ctx, s); err != nil {
		return got, err
	}
	got.Latency, err = l.atRates(ctx, s, latencyRun{RealKafka: true, Repetition: n})
	if err != nil {
		return got, err
	}
	if err := l.deliverBy(ctx, s, &run, l.full()); err != nil {
		return got, err
	}
	got.Deliver = append(got.Deliver, run)
	return got, nil
}

// serveOn starts what `lumenhook run` starts, on brokers that there are.
func (l *lab) serveOn(ctx context.Context, brokers []string) (s *service, err error) {
	l.services++
	s = &service{dir: filepath.Join(l.dir, fmt.Sprintf("service-%d", l.services))}
	if err := os.Mkdir(s.dir, 0o700); err != nil { // #nosec G703 -- in the lab's own
		return nil, err
	}
	at := []string{"--kafka-brokers", strings.Join(brokers, ",")}
	if err := l.createTopics(ctx, at); err != nil {
		return nil, err
	}
	key := filepath.Join(s.dir, "master-key")
	if _, err := l.program(ctx, "secrets", "create", "--master-key-file", key); err != nil {
		return nil, err
	}
	history, err := l.startClickHouse(ctx, s)
	if err != nil {
		return nil, err
	}
	if err = l.startServe(s, at, key, history); err == nil {
		err = l.openAccount(ctx, s, at)
	}
	if err == nil {
		err = errors.Join(s.createEndpoints(ctx, l.receiver.URL, latencyEndpoints), s.begin(ctx))
	}
	if err != nil {
		if s.process != nil {
			err = errors.Join(err, s.process.Stop(syscall.SIGKILL))
		}
		for _, end := range s.ends {
			err = errors.Join(err, end())
		}
		return nil, err
	}
	s.run.KafkaBrokers = brokers
	return s, nil
}

// createTopics creates them; brokers that have just started may need another try.
func (l *lab) createTopics(ctx context.Context, at []string) (err error) {
	for range 3 {
		_, err = l.program(ctx, append(at, "topics", "create", "--partitions",
			strconv.Itoa(partitions))...)
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// program runs a command of the program to its end, and returns what it printed.
func (l *lab) program(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, l.opt.service, args...) // #nosec G204 G702 -- ours
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s%s", args, err, out, &stderr)
	}
	return out, nil
}

// startClickHouse starts the history's engine as `lumenhook run` does.
func (l *lab) startClickHouse(ctx context.Context, s *service) (dsn string, err error) {
	logger := slog.New(slog.DiscardHandler)
	found, err := clickhouse.Find(ctx, clickhouse.Options{InstalledOnly: true, Logger: logger})
	if err != nil {
		return "", err
	}
	e, err := clickhouse.Start(ctx, clickhouse.Config{
		Program:    found,
		DataDir:    filepath.Join(s.dir, "clickhouse"),
		Logger:     logger,
		NativeAddr: "127.0.0.1:0",
		HTTPAddr:   "127.0.0.1:0",
	})
	if err != nil {
		return "", err
	}
	s.ends, s.engine = append(s.ends, e.Stop), e
	s.run.ClickHouse = &runfile.ClickHouse{
		HTTP:     e.HTTPURL(),
		Database: e.Database(),
		Reader:   runfile.Login(e.Reader()),
	}
	s.history = history{s.run.ClickHouse}
	return e.DSN(), nil
}

// startServe starts the roles that deliver.
func (l *lab) startServe(s *service, at []string, key, history string) error {
	listener, err := freeport.Listen("127.0.0.1")
	if err != nil {
		return err
	}
	api := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return err
	}
	s.run.APIURL = "http://" + api
	s.process, err = measuring.Begin[event](measuring.Command{
		Program: l.opt.service,
		Args: append(at, "serve", "--roles", "engine,projector,api", "--master-key-file", key,
			"--data-dir", filepath.Join(s.dir, "state"), "--api-listen", api,
			"--metrics-listen", "127.0.0.1:0", "--network", "nobody follows one here",
			"--stellar-rpc-url", "http://127.0.0.1:1", "--egress-allow", "127.0.0.0/8",
			"--egress-ports", "1-65535", "--egress-ca", l.roots, "--log-level", "warn"),
		Env: []string{"LUMENHOOK_CLICKHOUSE_DSN=" + history},
		Log: s.dir + ".log",
	})
	return err
}

// openAccount has the engine open an account, and waits until the API knows its key.
func (l *lab) openAccount(ctx context.Context, s *service, at []string) error {
	out, err := l.program(ctx, append(at, "accounts", "create", "--email", "bench@shop.example",
		"--json", "--data-dir", filepath.Join(s.dir, "none"))...)
	if err != nil {
		return fmt.Errorf("%w; see %s", err, s.process.Log())
	}
	var made apicli.MadeKey
	if err := json.Unmarshal(out, &made); err != nil {
		return err
	}
	s.run.APIKey, s.run.AccountID = made.Key, made.AccountID
	api, err := s.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyMax)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		_, asked := api.ListKeys(ctx, client.Page{})
		_, read := s.history.rows(ctx)
		if err := errors.Join(asked, read); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.process.Ended:
			return fmt.Errorf("the service ended: %w; see %s", s.process.Err, s.process.Log())
		case <-ctx.Done():
			return fmt.Errorf("the service is not ready: %w; see %s",
				errors.Join(asked, read, ctx.Err()), s.process.Log())
		}
	}
}
