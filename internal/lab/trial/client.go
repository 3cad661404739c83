package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// answerWait is how long a request is repeated before it counts as unanswered.
const answerWait = 3 * time.Minute

type request struct {
	method, path string
	body         any    // may be nil
	key          string // API key
	once         string // Idempotency-Key
}

type answer struct {
	status     int
	header     http.Header
	body       []byte
	sent, done time.Time // of the first try, and of the response
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

func (a answer) into(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("%s: %w", a.body, err)
	}
	return nil
}

func (a answer) code() string {
	var problem struct{ Code string }
	_ = json.Unmarshal(a.body, &problem)
	return problem.Code
}

var httpClient = &http.Client{
	Timeout:   20 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: 10 * time.Second},
}

// call repeats a request until the response is final. Requests that change something have an
// Idempotency-Key, so that they can be repeated after a kill.
func (w *world) call(ctx context.Context, r request) (answer, error) {
	a := answer{sent: time.Now()}
	var payload []byte
	if r.body != nil {
		var err error
		if payload, err = json.Marshal(r.body); err != nil {
			return a, err
		}
	}
	for until := time.Now().Add(answerWait); time.Now().Before(until); {
		info, err := w.service.await(ctx)
		if err != nil {
			return a, err
		}
		err = w.try(ctx, info.APIURL, r, payload, &a)
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if err == nil && a.status != http.StatusServiceUnavailable &&
			a.status != http.StatusTooManyRequests {
			if a.status >= 500 {
				w.violate("API", "%s %s was answered %d: %s", r.method, r.path, a.status, a.body)
			}
			return a, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.violate("API", "%s %s had no answer in %s; the last: %d %s", r.method, r.path, answerWait,
		a.status, a.body)
	return a, fmt.Errorf("%s %s was never answered", r.method, r.path)
}

func (w *world) try(ctx context.Context, base string, r request, payload []byte, a *answer) error {
	req, err := http.NewRequestWithContext(ctx, r.method, base+r.path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.once != "" {
		req.Header.Set("Idempotency-Key", r.once)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	a.status, a.header, a.body, a.done = resp.StatusCode, resp.Header, body, time.Now()
	return err
}

func (w *world) list(ctx context.Context, key, path string, page int,
	each func(json.RawMessage) error) error {
	sep := "?"
	if bytes.ContainsRune([]byte(path), '?') {
		sep = "&"
	}
	for cursor := ""; ; {
		at := fmt.Sprintf("%s%slimit=%d%s", path, sep, page, cursor)
		a, err := w.call(ctx, request{method: "GET", path: at, key: key})
		if err != nil {
			return err
		}
		var got struct {
			Data       []json.RawMessage
			NextCursor *string
		}
		if a.status != http.StatusOK {
			return fmt.Errorf("GET %s was answered %d: %s", at, a.status, a.body)
		}
		if err := a.into(&got); err != nil {
			return err
		}
		for _, item := range got.Data {
			if err := each(item); err != nil {
				return err
			}
		}
		if got.NextCursor == nil {
			return nil
		}
		cursor = "&cursor=" + *got.NextCursor
	}
}
