package horizon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

const (
	answerSizeBytesMax = 64 << 20
	patienceMax        = 10 * time.Minute // longest wait that a server may ask for
	requestTimeout     = 30 * time.Second
)

// client makes requests to one server.
type client struct {
	base *url.URL
	http *http.Client
}

func newClient(address string, httpClient *http.Client) (*client, error) {
	u, err := source.ParseAddress(address, "horizon", "Horizon")
	if err != nil {
		return nil, err
	}
	if httpClient == nil {
		httpClient = &http.Client{}
	}
	return &client{base: u, http: httpClient}, nil
}

var errNotFound = errors.New("it is not there")

// get asks for one thing. A status of 410 says that history begins later.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	_, err := c.getWithHeader(ctx, path, query, into)
	return err
}

// getWithHeader returns the header of a refusal, too.
func (c *client) getWithHeader(
	ctx context.Context, path string, query url.Values, into any,
) (http.Header, error) {
	header, err := c.exchange(ctx, path, query, into)
	if err != nil {
		err = fmt.Errorf("asking the Horizon at %s for %s: %w", c.base.Host, path, err)
	}
	return header, err
}

func (c *client) exchange(
	ctx context.Context, path string, query url.Values, into any,
) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	u := *c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	all := u.Query() // a provider's key may be there
	for name, values := range query {
		all[name] = values
	}
	u.RawQuery = all.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, source.WithoutAddress(err)
	}
	req.Header.Set("Accept", "application/hal+json, application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, source.WithoutAddress(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, answerSizeBytesMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case len(raw) > answerSizeBytesMax:
		return nil, fmt.Errorf("the answer is larger than %d bytes", answerSizeBytesMax)
	case resp.StatusCode != http.StatusOK:
		return resp.Header, refusal(resp, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("its answer has an unexpected form: %w", err)
	}
	return resp.Header, nil
}

// refusal reads what a status other than 200 means.
func refusal(resp *http.Response, raw []byte) error {
	var problem struct{ Detail string }
	_ = json.Unmarshal(raw, &problem) // other servers' words have no detail
	if len(problem.Detail) > 200 {
		problem.Detail = problem.Detail[:200]
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if wait := retryAfter(resp.Header.Get("Retry-After")); wait > 0 ||
			resp.StatusCode == http.StatusTooManyRequests {
			return retry.After(fmt.Errorf("it asks for patience (%v)", wait), wait)
		}
	case http.StatusNotFound:
		return errNotFound
	case http.StatusGone:
		return fmt.Errorf("%w: %s", domain.ErrBehindRetention, problem.Detail)
	}
	return fmt.Errorf("it answered with HTTP status %d: %q", resp.StatusCode, problem.Detail)
}

// retryAfter reads the header's seconds; Horizon gives no dates.
func retryAfter(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, patienceMax)
}
