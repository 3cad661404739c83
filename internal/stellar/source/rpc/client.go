package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// Size limits of responses. If a page is too large, it is requested again with fewer ledgers. A
// single ledger may be larger: a busy one takes about 3 MB in base64.
const (
	answerSizeBytesMax  = 1 << 20 // of a response without its ledgers
	pageSizeBytesMax    = 8 << 20
	ledgerSizeBytesMax  = 32 << 20
	refusalSizeBytesMax = 4 << 10
	detailSizeBytesMax  = 200 // of a server's message in an error

	scratchKeptSizeBytesMax  = 4 << 20  // of a decoding buffer that is kept for the next ledger
	scratchFreedSizeBytesMin = 12 << 20 // buffers of this size are returned to the system immediately
)

const retryAfterMax = 10 * time.Minute

var errTooLarge = errors.New("the response is too large")

var transport = &http.Transport{
	Proxy:               http.ProxyFromEnvironment,
	ForceAttemptHTTP2:   true,
	MaxIdleConnsPerHost: aheadMax + 1,
	IdleConnTimeout:     90 * time.Second,
}

// client makes JSON-RPC calls to a server. It is safe for concurrent use.
type client struct {
	address  string
	host     string // without secrets
	http     *http.Client
	notUntil atomic.Pointer[time.Time] // until when the server requested to wait
}

func newClient(address string, httpClient *http.Client) (*client, error) {
	u, err := source.ParseAddress(address, "rpc", "Stellar RPC")
	if err != nil {
		return nil, err
	}
	if httpClient == nil {
		httpClient = &http.Client{Transport: transport}
	}
	return &client{address: address, host: u.Host, http: httpClient}, nil
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *serverError    `json:"error"`
}

type serverError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *serverError) Error() string {
	return fmt.Sprintf("the server refused: %s (code %d)", clip(e.Message), e.Code)
}

// call makes a call. The response may have at most sizeBytesMax bytes.
func (c *client) call(
	ctx context.Context, method string, params, result any, sizeBytesMax int64,
) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.exchange(ctx, method, params, result, sizeBytesMax); err != nil {
		return fmt.Errorf("calling the Stellar RPC at %s (%s): %w", c.host, method, err)
	}
	return nil
}

func (c *client) exchange(
	ctx context.Context, method string, params, result any, sizeBytesMax int64,
) error {
	if until := c.notUntil.Load(); until != nil && time.Now().Before(*until) {
		return fmt.Errorf("the server asked to wait until %s", until.Format(time.RFC3339))
	}
	body, err := json.Marshal(request{Version: "2.0", ID: 1, Method: method, Params: params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return source.WithoutAddress(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return source.WithoutAddress(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c.refusal(resp)
	}
	err = parse(http.MaxBytesReader(nil, resp.Body, sizeBytesMax), result)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return fmt.Errorf("%w: more than %d bytes", errTooLarge, sizeBytesMax)
	}
	return err
}

// refusal returns an error for an error status, and records a Retry-After.
func (c *client) refusal(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, refusalSizeBytesMax))
	if err != nil {
		raw = []byte(err.Error())
	}
	err = fmt.Errorf("it returned HTTP status %d: %s", resp.StatusCode, clip(string(raw)))
	busy := resp.StatusCode == http.StatusTooManyRequests ||
		resp.StatusCode == http.StatusServiceUnavailable
	now := time.Now()
	if wait := retry.After(resp.Header.Get("Retry-After"), now, retryAfterMax); busy && wait > 0 {
		until := now.Add(wait)
		c.notUntil.Store(&until)
		err = fmt.Errorf("%w; it asks to wait until %s", err, until.Format(time.RFC3339))
	}
	return err
}

// streamed is a result that is decoded while it arrives, such as a page with megabytes of base64.
type streamed interface{ read(body io.Reader) error }

func parse(body io.Reader, result any) error {
	if s, ok := result.(streamed); ok {
		return s.read(body)
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("its response is not JSON-RPC: %w", err)
	}
	if a.Error != nil {
		return a.Error
	}
	if len(a.Result) == 0 || string(a.Result) == "null" {
		return errors.New("its response has no result")
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fmt.Errorf("its response has an unexpected form: %w", err)
	}
	return nil
}

func clip(s string) string {
	if len(s) > detailSizeBytesMax {
		s = s[:detailSizeBytesMax] + "…"
	}
	return fmt.Sprintf("%q", s)
}
