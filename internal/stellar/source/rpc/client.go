package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// Bounds of what one answer may weigh. A busy ledger takes some 3 MB as base64.
const (
	answerSizeBytesMax = 1 << 20
	pageSizeBytesMax   = 128 << 20
	detailSizeBytesMax = 200 // of a server's own words in our errors

	bodyKeptSizeBytesMax = 8 << 20 // of an answer's memory, for the next
)

var errTooLarge = errors.New("the answer is too large")

// client makes JSON-RPC calls to one server.
type client struct {
	address string
	host    string // what may be logged
	http    *http.Client
}

func newClient(address string, httpClient *http.Client) (*client, error) {
	u, err := source.ParseAddress(address, "rpc", "Stellar RPC")
	if err != nil {
		return nil, err
	}
	if httpClient == nil {
		httpClient = &http.Client{}
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

// serverError is what the server itself says against a call.
type serverError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *serverError) Error() string {
	return fmt.Sprintf("the server refused: %s (code %d)", clip(e.Message), e.Code)
}

// call asks for one thing. The answer may weigh sizeBytesMax.
func (c *client) call(
	ctx context.Context, method string, params, result any, sizeBytesMax int64,
) error {
	if err := c.exchange(ctx, method, params, result, sizeBytesMax); err != nil {
		return fmt.Errorf("asking the Stellar RPC at %s for %s: %w", c.host, method, err)
	}
	return nil
}

func (c *client) exchange(
	ctx context.Context, method string, params, result any, sizeBytesMax int64,
) error {
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
	return parseBody(resp, result, sizeBytesMax)
}

// bodies is memory of answers that were parsed.
var bodies sync.Pool

func parseBody(resp *http.Response, result any, sizeBytesMax int64) error {
	body, ok := bodies.Get().(*bytes.Buffer)
	if !ok {
		body = new(bytes.Buffer)
	}
	defer func() {
		if body.Cap() <= bodyKeptSizeBytesMax {
			bodies.Put(body)
		}
	}()
	raw, err := readBody(body, resp, sizeBytesMax)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if int64(len(raw)) > sizeBytesMax {
		return fmt.Errorf("%w: more than %d bytes", errTooLarge, sizeBytesMax)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered with HTTP status %d: %s", resp.StatusCode, clip(string(raw)))
	}
	return parse(raw, result)
}

// readBody reads one byte more than is allowed, at most. Pages weigh megabytes: the buffer is
// allocated once, if the server says how large they are.
func readBody(body *bytes.Buffer, resp *http.Response, sizeBytesMax int64) ([]byte, error) {
	body.Reset()
	if resp.ContentLength > 0 {
		body.Grow(int(min(resp.ContentLength, sizeBytesMax)) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(resp.Body, sizeBytesMax+1))
	return body.Bytes(), err
}

// fast is an answer that reads itself out of JSON. Pages are such: the plain
// decoder goes over their megabytes of base64 three times, which takes longer
// than all that is done with them afterwards.
type fast interface{ parse(raw []byte) error }

func parse(raw []byte, result any) error {
	if f, ok := result.(fast); ok {
		return f.parse(raw)
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("its answer is no JSON-RPC: %w", err)
	}
	if a.Error != nil {
		return a.Error
	}
	if len(a.Result) == 0 || string(a.Result) == "null" {
		return errors.New("its answer has no result")
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fmt.Errorf("its answer has an unexpected form: %w", err)
	}
	return nil
}

func clip(s string) string {
	if len(s) > detailSizeBytesMax {
		s = s[:detailSizeBytesMax] + "…"
	}
	return fmt.Sprintf("%q", s)
}
