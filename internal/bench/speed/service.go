package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams"
)

const (
	servicePrefix = "lumenhook."
	readyMax      = 3 * time.Minute
	historyMax    = 10 * time.Minute
)

// service is the real program on a data folder.
type service struct {
	process  *child
	dir      string
	kept     bool // the folder is not this run's alone
	run      runfile.File
	history  history
	payments measuring.Payments
	since    time.Time // of the deliveries that are expected
	before   int       // rows of the history then
	expected int       // attempts that the history is to hold since
	profiles int       // that were begun
	// profilable services are this program, which takes profiles of itself.
	profilable bool
	engine     *clickhouse.Engine // nil: the service's own child
	brokers    []int              // processes of real ones
	ends       []func() error
}

// others are the processes that work for the service beside its own.
func (s *service) others() []int {
	if s.engine != nil {
		return []int{s.engine.PID()}
	}
	return measuring.Descendants(s.process.PID())
}

// serving is how a service is started.
type serving struct {
	sync      bool
	endpoints int
	profiled  bool
	dir       string // of its data; empty: one of its own
	args      []string
}

// serve starts the program with so many endpoints, and returns when its history answers. If
// profiles are to be taken of it, it is this program that does the same.
func (l *lab) serve(ctx context.Context, how serving) (s *service, err error) {
	s, err = l.startRun(ctx, how)
	if err != nil {
		return nil, err
	}
	if err = s.createEndpoints(ctx, l.receiver.URL, how.endpoints); err == nil {
		err = s.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.process.Stop(syscall.SIGKILL))
	}
	return s, nil
}

// startRun starts the program and waits until it is ready.
func (l *lab) startRun(ctx context.Context, how serving) (s *service, err error) {
	l.services++
	name := fmt.Sprintf("service-%d", l.services)
	s = &service{dir: how.dir, kept: how.dir != "", profilable: how.profiled}
	if !s.kept {
		s.dir = filepath.Join(l.dir, name)
	}
	program, args := l.opt.service, []string{"run"}
	if how.profiled {
		at := filepath.Join(cmp.Or(l.opt.profiles, l.dir), name)
		program, args = "", []string{childArg, serviceChild, at}
	}
	args = append(args, "--data-dir", s.dir, "--no-demo", "--egress-ports", "1-65535",
		"--egress-ca", l.roots, "--broker-sync="+strconv.FormatBool(how.sync))
	for _, part := range []string{
		"api", "metrics", "kafka", "stellar", "receiver", "clickhouse-native", "clickhouse-http",
	} {
		args = append(args, "--"+part+"-listen", "127.0.0.1:0")
	}
	s.process, err = measuring.Begin[event](measuring.Command{
		Program: program,
		Args:    append(args, how.args...),
		Log:     filepath.Join(l.dir, name+".log"),
	})
	if err != nil {
		return nil, err
	}
	if err = s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.process.Stop(syscall.SIGKILL))
	}
	return s, nil
}

// begin remembers what the history holds before anything is delivered here.
func (s *service) begin(ctx context.Context) (err error) {
	s.since, s.expected = time.Now(), 0
	s.before, err = s.history.rows(ctx)
	return err
}

// ready waits until the service is, and its history answers.
func (s *service) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyMax)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		run, err := runfile.Read(s.dir)
		if err == nil && run.ClickHouse != nil && run.PID == s.process.PID() {
			s.run, s.history = run, history{run.ClickHouse}
			if _, err = s.history.rows(ctx); err == nil {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-s.process.Ended:
			return fmt.Errorf("the service ended: %w; see %s", s.process.Err, s.process.Log())
		case <-ctx.Done():
			return fmt.Errorf("the service is not ready: %w; see %s", errors.Join(err, ctx.Err()),
				s.process.Log())
		}
	}
}

func (s *service) createEndpoints(ctx context.Context, receiver string, n int) error {
	api, err := client.New(s.run.APIURL, s.run.APIKey, http.DefaultClient)
	if err != nil {
		return err
	}
	s.payments = paymentsTo(s.run.AccountID)
	for i := range n {
		made, err := api.CreateEndpoint(ctx,
			client.EndpointCreate{URL: receiver + "/" + strconv.Itoa(i)})
		if err != nil {
			return fmt.Errorf("creating an endpoint: %w", err)
		}
		s.payments.Endpoints = append(s.payments.Endpoints, made.ID)
	}
	return nil
}

// cluster is how to reach its broker.
func (s *service) cluster() cluster {
	return cluster{
		Broker: s.run.KafkaBrokers[0],
		Prefix: servicePrefix,
		SASL: streams.SASL{
			Mechanism: s.run.Kafka.Mechanism,
			User:      s.run.Kafka.User,
			Password:  s.run.Kafka.Password,
		},
	}
}

// used is what the service and the processes that it started have used so far, in seconds.
func (s *service) used() (service, children float64, err error) {
	own, err := measuring.ProcessorTime(s.process.PID())
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range s.others() {
		time, err := measuring.ProcessorTime(pid)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, 0, err
		}
		children += time.Seconds()
	}
	return own.Seconds(), children, nil
}

// stop ends it in order, and what was started for it, and removes its data.
func (s *service) stop() error {
	err := s.process.Stop(syscall.SIGINT)
	for _, end := range s.ends {
		err = errors.Join(err, end())
	}
	if err == nil && !s.kept {
		err = os.RemoveAll(s.dir) // #nosec G703 -- made by startRun
	}
	return err
}
