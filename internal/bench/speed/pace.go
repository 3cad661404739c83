package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/streams"
)

// underWay is how many sends at a rate may wait for their answer.
const underWay = 4096

// pacedAppend appends matches at a rate, each by itself.
func (t *task) pacedAppend(ctx context.Context) error {
	producer, err := t.Cluster.open().NewProducer()
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := t.warmProducer(ctx, producer); err != nil {
		return err
	}
	return t.pace(ctx, 1, func(ctx context.Context, n int) func() error {
		record := t.Payments.Match(t.Run, n)
		return func() error { return producer.Append(ctx, record) }
	})
}

// warmProducer appends a match that is not counted: what appends facts in a service has long
// been known to the brokers.
func (t *task) warmProducer(ctx context.Context, producer *streams.Producer) error {
	if err := producer.Append(ctx, t.Payments.Match(t.Run+" warm", 0)); err != nil {
		return err
	}
	arrived := counter{t.Counter}
	if _, err := arrived.await(ctx, 1); err != nil {
		return err
	}
	return arrived.expect(ctx, t.AtLeast)
}

// pacedPosts posts at a rate, over connections that are open.
func (t *task) pacedPosts(ctx context.Context) error {
	post, err := t.bare()
	if err != nil {
		return err
	}
	if err := t.warm(ctx, post); err != nil {
		return err
	}
	if err := (counter{t.Counter}).expect(ctx, t.AtLeast); err != nil {
		return err
	}
	return t.pace(ctx, 0, func(ctx context.Context, n int) func() error {
		id := measuring.EventID(t.Run, n)
		return func() error { return post(ctx, id) }
	})
}

// pace sends at a rate: none waits for another, so that one that is held up does not hide how
// long others would have waited. It writes down when each was sent.
func (t *task) pace(
	ctx context.Context, warm int, prepare func(ctx context.Context, n int) (send func() error),
) error {
	count := int(t.Rate * t.Time.Seconds())
	sent, errs := make([]int64, count), make([]error, count)
	late := make([]float64, count)
	places := make(chan struct{}, underWay)
	var all sync.WaitGroup
	used := processor()
	report(event{Kind: eventBegan})
	began := time.Now()
	for n := range count {
		send := prepare(ctx, n)
		due := began.Add(time.Duration(float64(n) / t.Rate * float64(time.Second)))
		if err := awaitTime(ctx, due); err != nil {
			return err
		}
		places <- struct{}{}
		all.Go(func() {
			now := time.Now()
			sent[n], late[n] = now.UnixNano(), now.Sub(due).Seconds()*1000
			errs[n] = send()
			<-places
		})
	}
	all.Wait()
	used = processor() - used
	if err := errors.Join(errs...); err != nil {
		return err
	}
	text, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	if err := os.WriteFile(t.Sent, text, 0o600); err != nil {
		return err
	}
	slices.Sort(late)
	report(event{
		Kind:      eventDone,
		N:         count,
		Warm:      warm,
		Processor: used,
		Late:      percentile(late, 99),
	})
	return nil
}

// awaitTime waits until a time has come.
func awaitTime(ctx context.Context, due time.Time) error {
	wait := time.Until(due)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// percentile returns the value that p of a hundred do not exceed, of values in order.
func percentile(sorted []float64, p int) float64 {
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}
