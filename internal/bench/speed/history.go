package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/internal/runfile"
)

// history asks ClickHouse, as a reader.
type history struct{ at *runfile.ClickHouse }

// rows is how many rows the attempts have, which costs nothing to ask; a row may be there twice.
func (h history) rows(ctx context.Context) (int, error) {
	return h.ask(ctx, "SELECT count() FROM attempts")
}

// delivered is how many events have an attempt since a time that delivered them to one of the
// endpoints. The table is in the order of both, so that others do not make it slower.
func (h history) delivered(ctx context.Context, endpoints []string, since time.Time) (int, error) {
	return h.ask(ctx, fmt.Sprintf("SELECT uniqExact(event_id) FROM attempts "+
		"WHERE endpoint_id IN ('%s') AND sent_at >= fromUnixTimestamp64Milli(%d) "+
		"AND state = 'DELIVERED'", strings.Join(endpoints, "', '"), since.UnixMilli()))
}

func (h history) ask(ctx context.Context, query string) (int, error) {
	address := h.at.HTTP
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		address+"/?database="+url.QueryEscape(h.at.Database), strings.NewReader(query))
	if err != nil {
		return 0, err
	}
	r.SetBasicAuth(h.at.Reader.User, h.at.Reader.Password)
	resp, err := http.DefaultClient.Do(r) // #nosec G704 -- the service's own
	if err != nil {
		return 0, fmt.Errorf("asking the history: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the history answered %s: %s, %w", resp.Status, text, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// awaitHistory waits until the history holds an attempt that delivered each of n more events.
func (s *service) awaitHistory(ctx context.Context, n int) error {
	s.expected += n
	ctx, cancel := context.WithTimeout(ctx, historyMax)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for latest, at := -1, time.Now(); ; {
		rows, err := s.history.rows(ctx)
		if err != nil {
			return err
		}
		if rows != latest {
			latest, at = rows, time.Now()
		}
		// Only then the question that costs something; rows that were there twice may be gone.
		if rows >= s.before+s.expected || time.Since(at) > time.Second {
			delivered, err := s.history.delivered(ctx, s.payments.Endpoints, s.since)
			if err != nil || delivered >= s.expected {
				return err
			}
			at = time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d more rows are in the history, and not %d: %w", rows-s.before,
				s.expected, ctx.Err())
		}
	}
}
