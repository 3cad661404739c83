package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/streams"
)

const (
	childArg = "-child"

	// lookEvery is how often is asked what has arrived.
	lookEvery = 20 * time.Millisecond
	// stalled is how long nothing may arrive.
	stalled = time.Minute
)

// kinds of children
const (
	receiverChild = "receiver"
	relayChild    = "relay"
	loadChild     = "load"
	serviceChild  = "service" // with its own arguments
)

// task is what a child is told, as JSON on its standard input: it has a password, which is no
// part of a command line.
type task struct {
	Roots string `json:"roots,omitempty"` // the file of the receiver's certificate

	// of the relay
	Dir  string `json:"dir,omitempty"`
	Sync bool   `json:"sync,omitempty"`

	// of the load
	Kind     string             `json:"kind,omitempty"`
	Run      string             `json:"run,omitempty"` // a part of event ids
	Cluster  cluster            `json:"cluster"`
	Payments measuring.Payments `json:"payments"`
	Counter  string             `json:"counter,omitempty"` // who counts what arrives
	Receiver string             `json:"receiver,omitempty"`
	Warm     int                `json:"warm,omitempty"` // posts that are not counted
	AtLeast  int                `json:"atLeast,omitempty"`
	Time     time.Duration      `json:"time,omitempty"` // how long at least
	Backlog  int                `json:"backlog,omitempty"`
	Rate     float64            `json:"rate,omitempty"`
	Sent     string             `json:"sent,omitempty"` // a file: when each was sent
	Network  network            `json:"network,omitzero"`
	Ledgers  time.Duration      `json:"ledgers,omitempty"` // from one to the next
}

// cluster is how to reach a broker.
type cluster struct {
	Broker string       `json:"broker,omitempty"`
	Prefix string       `json:"prefix,omitempty"`
	SASL   streams.SASL `json:"sasl"`
}

func (c cluster) open() streams.Cluster {
	return streams.Cluster{
		Brokers:  []string{c.Broker},
		Prefix:   c.Prefix,
		ClientID: "speed",
		SASL:     c.SASL,
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
}

// event is what a child reports, as a line of JSON.
type event struct {
	Kind      string  `json:"kind"`
	At        int64   `json:"at"`                  // Unix nanoseconds
	URL       string  `json:"url,omitempty"`       // of a receiver, or a file
	Counter   string  `json:"counter,omitempty"`   // of a receiver and a relay
	Broker    string  `json:"broker,omitempty"`    // of a relay
	N         int     `json:"n,omitempty"`         // how many were appended or posted
	Warm      int     `json:"warm,omitempty"`      // how many before those
	Processor float64 `json:"processor,omitempty"` // seconds that the load used
	Fault     string  `json:"fault,omitempty"`     // of a profile
	Late      float64 `json:"late,omitempty"`      // p99 of what was sent at a rate, milliseconds
}

const (
	eventReady = "ready"
	eventBegan = "began"
	eventDone  = "done"

	eventProfiling = "profiling"
	eventProfiled  = "profiled"
)

func report(e event) {
	e.At = time.Now().UnixNano()
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // it is made of numbers and addresses
	}
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func runChild(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(args) > 0 && args[0] == serviceChild {
		return runService(ctx, args[1:])
	}
	if len(args) != 1 {
		return errors.New("a child has one kind")
	}
	var t task
	if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
		return fmt.Errorf("reading what is to be done: %w", err)
	}
	switch args[0] {
	case receiverChild:
		return t.receive(ctx)
	case relayChild:
		return t.relay(ctx)
	case loadChild:
		return t.load(ctx)
	}
	return fmt.Errorf("there is no child %q", args[0])
}

// processor is the time that this process has used, in seconds.
func processor() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it is asked rightly
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
