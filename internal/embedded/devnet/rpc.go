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
	"time"
)

const (
	maxBodyBytes = 512 << 10 // what a Stellar RPC server takes
	maxBatch     = 100
	maxRequests  = 1024 // at once, those that wait for friendbot included
)

// JSON-RPC 2.0 error codes.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternalError  = -32603
)

// rpcError is an error that a client is told, with the code a Stellar RPC server gives it.
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
		Handler:           bounded(mux),
		BaseContext:       func(net.Listener) context.Context { return run },
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      n.cfg.CloseInterval + time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// bounded turns away what is more than the server should hold at once, and lets pages of any origin in, as
// public RPC servers do: all this serves is a network of play money.
func bounded(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
			w.Header().Set("Access-Control-Allow-Headers", "*")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("more than %d requests at once", maxRequests), http.StatusServiceUnavailable)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		next.ServeHTTP(w, r)
	})
}

func (n *Network) serveRPC(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST, OPTIONS")
		http.Error(w, "Stellar RPC: send JSON-RPC 2.0 by POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		http.Error(w, fmt.Sprintf("request body is larger than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		return // the client is gone
	}
	answer := n.answerBody(r.Context(), body)
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

// answerBody answers one request or a batch; nil when nothing but notifications came.
func (n *Network) answerBody(ctx context.Context, body []byte) any {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '[' {
		if answer := n.answer(ctx, body); answer != nil {
			return answer
		}
		return nil
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(body, &batch); err != nil {
		return failed(nil, &rpcError{codeParseError, "the request is not well-formed JSON: " + err.Error()})
	}
	if len(batch) == 0 || len(batch) > maxBatch {
		return failed(nil, &rpcError{codeInvalidRequest, fmt.Sprintf("a batch holds 1 to %d requests, not %d", maxBatch, len(batch))})
	}
	var answers []*rpcResponse
	for _, raw := range batch {
		if answer := n.answer(ctx, raw); answer != nil {
			answers = append(answers, answer)
		}
	}
	if answers == nil {
		return nil
	}
	return answers
}

func (n *Network) answer(ctx context.Context, raw []byte) *rpcResponse {
	if !json.Valid(raw) {
		return failed(nil, &rpcError{codeParseError, "the request is not well-formed JSON"})
	}
	var req rpcRequest
	if err := json.Unmarshal(raw, &req); err != nil || req.Version != "2.0" || req.Method == "" {
		return failed(req.ID, &rpcError{codeInvalidRequest, `the request is not JSON-RPC 2.0: it needs "jsonrpc": "2.0" and "method"`})
	}
	result, err := n.call(ctx, req.Method, req.Params)
	switch told := new(rpcError); {
	case len(req.ID) == 0: // a notification
		return nil
	case errors.As(err, &told):
		return failed(req.ID, told)
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
