package devnet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"

	"github.com/lumenhook/lumenhook/internal/webguard"
)

const (
	maxBodyBytes = 512 << 10 // what a Stellar RPC server takes
	maxBatch     = 100
	maxRequests  = 1024 // at once, those that wait for friendbot included
	maxPages     = 8    // of these, the ones that return ledgers
)

// JSON-RPC 2.0 error codes.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternalError  = -32603
)

// rpcError is an error that a client is given, with the code a Stellar RPC server gives it.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

type rpcRequest struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type rpcResponse struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// newServer makes the HTTP server; run ends with the Run it belongs to.
func (n *Network) newServer(run context.Context) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/friendbot", n.serveFriendbot)
	mux.HandleFunc("/{$}", n.serveRPC)
	return &http.Server{
		Handler:           n.guard().Wrap(bounded(mux)),
		BaseContext:       func(net.Listener) context.Context { return run },
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      n.cfg.CloseInterval + time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// guard keeps pages of other origins out. A public server lets them in; but this one's
// friendbot and queue are its user's own, and a page that fills them, or pays to a watched
// wallet, would mislead what is tested here.
func (n *Network) guard() webguard.Config {
	return webguard.Config{Listen: n.cfg.Listen, Hosts: n.cfg.Hosts, Origins: n.cfg.Origins}
}

// bounded turns away what is more than the server should hold at once.
func bounded(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("more than %d requests at once", maxRequests),
				http.StatusServiceUnavailable)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		next.ServeHTTP(w, r)
	})
}

func (n *Network) serveRPC(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "Stellar RPC: send JSON-RPC 2.0 by POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		http.Error(w, fmt.Sprintf("request body is larger than %d bytes", tooLarge.Limit),
			http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		return // the client is gone
	}
	requests, batch, fault := parseBody(body)
	if fault != nil {
		writeJSON(w, http.StatusOK, failed(nil, fault))
		return
	}
	if slices.ContainsFunc(requests, rpcRequest.isPage) { // held until the page is written
		select {
		case n.pages <- struct{}{}:
			defer func() { <-n.pages }()
		case <-r.Context().Done():
			return
		}
	}
	if n.spoil(r.Context(), w, requests) {
		return
	}
	var answers []*rpcResponse
	for _, req := range requests {
		if answer := n.answer(req); answer != nil {
			answers = append(answers, answer)
		}
	}
	switch {
	case len(answers) == 0: // nothing but notifications
		w.WriteHeader(http.StatusNoContent)
	case batch:
		writeJSON(w, http.StatusOK, answers)
	default:
		writeJSON(w, http.StatusOK, answers[0])
	}
}

// parseBody reads one request or a batch. A request in a batch that is not well-formed JSON
// makes the whole body so; one that is not JSON-RPC is answered by itself.
func parseBody(body []byte) (requests []rpcRequest, batch bool, fault *rpcError) {
	if !json.Valid(body) {
		return nil, false, &rpcError{codeParseError, "the request is not well-formed JSON"}
	}
	parts := []json.RawMessage{body}
	if trimmed := bytes.TrimSpace(body); trimmed[0] == '[' {
		batch = true
		_ = json.Unmarshal(body, &parts) // an array, and well-formed
		if len(parts) == 0 || len(parts) > maxBatch {
			return nil, true, &rpcError{
				codeInvalidRequest,
				fmt.Sprintf("a batch holds 1 to %d requests, not %d", maxBatch, len(parts)),
			}
		}
	}
	pages := 0
	for _, part := range parts {
		var req rpcRequest
		if json.Unmarshal(part, &req) != nil {
			req = rpcRequest{} // without a version, and answered so
		}
		if req.isPage() {
			pages++
		}
		requests = append(requests, req)
	}
	if pages > 1 {
		return nil, batch, &rpcError{
			codeInvalidRequest,
			"a batch holds at most one getLedgers, getLatestLedger, getTransactions, getEvents or " +
				"getFeeStats",
		}
	}
	return requests, batch, nil
}

// isPage tells the methods whose answers are large.
func (r rpcRequest) isPage() bool {
	switch r.Method {
	case protocol.GetLedgersMethodName, protocol.GetLatestLedgerMethodName,
		protocol.GetTransactionsMethodName,
		protocol.GetEventsMethodName, protocol.GetFeeStatsMethodName:
		return true
	}
	return false
}

// answer answers one request; nil for a notification.
func (n *Network) answer(req rpcRequest) *rpcResponse {
	if req.Version != "2.0" || req.Method == "" {
		return failed(req.ID,
			&rpcError{
				codeInvalidRequest,
				`the request is not JSON-RPC 2.0: it needs "jsonrpc": "2.0" and "method"`,
			})
	}
	result, err := n.call(req.Method, req.Params)
	switch refused := new(rpcError); {
	case len(req.ID) == 0:
		return nil
	case errors.As(err, &refused):
		return failed(req.ID, refused)
	case err != nil:
		n.cfg.Logger.Error("devnet request failed", "method", req.Method, "err", err)
		return failed(req.ID, &rpcError{codeInternalError, err.Error()})
	default:
		return &rpcResponse{Version: "2.0", ID: req.ID, Result: result}
	}
}

func failed(id json.RawMessage, err *rpcError) *rpcResponse {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return &rpcResponse{Version: "2.0", ID: id, Error: err}
}

// params decodes the parameters of a call, which are an object or nothing.
func params[T any](raw json.RawMessage) (T, error) {
	var p T
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return p, nil
	}
	if raw[0] != '{' {
		return p, &rpcError{codeInvalidParams, "params must be an object"}
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, &rpcError{codeInvalidParams, "invalid parameters: " + err.Error()}
	}
	return p, nil
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "encode the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // a client that is gone misses its answer
}
