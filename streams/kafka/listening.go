package kafka

import (
	"context"
	"strings"
	"time"
)

// listeningTimeout is ample: a healthy broker answers within milliseconds.
const listeningTimeout = 5 * time.Second

// UnreachableError means that none of the brokers can be reached.
type UnreachableError struct {
	Brokers []string
	Causes  []error // one per broker
}

func (e *UnreachableError) Error() string {
	var why strings.Builder
	for i, broker := range e.Brokers {
		why.WriteString("; " + broker + ": " + e.Causes[i].Error())
	}
	return "streams: no broker can be reached" + why.String()
}

func (e *UnreachableError) Unwrap() []error { return e.Causes }

// Unreached returns the brokers and the cause for each of them.
func (e *UnreachableError) Unreached() ([]string, []error) { return e.Brokers, e.Causes }

// Listening returns an *[UnreachableError] unless a broker answers. Commands use it to fail
// immediately; services retry instead.
func (c Cluster) Listening(ctx context.Context) error {
	if len(c.Brokers) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listeningTimeout)
	defer cancel()
	type answer struct {
		of  int
		err error
	}
	answers := make(chan answer, len(c.Brokers))
	for i, address := range c.Brokers {
		go func() { answers <- answer{i, c.ping(ctx, address)} }()
	}
	failed := &UnreachableError{Brokers: c.Brokers, Causes: make([]error, len(c.Brokers))}
	for range c.Brokers {
		a := <-answers
		if a.err == nil {
			return nil
		}
		failed.Causes[a.of] = a.err
	}
	return failed
}

func (c Cluster) ping(ctx context.Context, address string) error {
	c.Brokers = []string{address}
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}
