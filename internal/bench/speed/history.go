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

// delivered is how many events have an attempt that delivered them.
func (h history) delivered(ctx context.Context) (int, error) {
	return h.ask(ctx, "SELECT uniqExact(event_id) FROM attempts WHERE state = 'DELIVERED'")
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

// await waits until the history holds an attempt that delivered each of n events.
func (h history) await(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, historyMax)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		rows, err := h.rows(ctx)
		if err != nil {
			return err
		}
		if rows >= n { // only then the question that costs something
			delivered, err := h.delivered(ctx)
			if err != nil || delivered >= n {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d attempts are in the history: %w", rows, n, ctx.Err())
		}
	}
}
