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

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"

	"github.com/lumenhook/lumenhook/internal/ingress"
)

const (
	maxBodyBytes = 512 << 10 // limit of a Stellar RPC server
	maxConns     = 1024      // concurrent connections
	maxPages     = 8         // concurrent responses with ledgers
)

// JSON-RPC 2.0 error codes.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternalError  = -32603
)

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

// newServer returns the HTTP server for a Run. Unlike a public server, it refuses requests from web
// pages of other origins, because friendbot and the queue belong to the user.
func (n *Network) newServer(run context.Context) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /friendbot", n.serveFriendbot)
	mux.HandleFunc("POST /friendbot", n.serveFriendbot)
	mux.HandleFunc("POST /{$}", n.serveRPC)
	guard := ingress.Guard{Listen: n.cfg.Listen, Hosts: n.cfg.Hosts, Origins: n.cfg.Origins}
	return &http.Server{
		Handler:           guard.Wrap(http.MaxBytesHandler(mux, maxBodyBytes)),
		BaseContext:       func(net.Listener) context.Context { return run },
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      n.cfg.CloseInterval + time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnState:         ingress.ConnState,
	}
}

func (n *Network) serveRPC(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		http.Error(w, fmt.Sprintf("request body is larger than %d bytes", tooLarge.Limit),
			http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		return // the client has disconnected
	}
	var req rpcRequest
	if !json.Valid(body) {
		writeJSON(w, http.StatusOK,
			failed(nil, &rpcError{codeParseError, "the request is not well-formed JSON"}))
		return
	}
	if json.Unmarshal(body, &req) != nil {
		req = rpcRequest{} // rejected because it has no version
	}
	if isPage(req.Method) { // until the page is written
		select {
		case n.pages <- struct{}{}:
			defer func() { <-n.pages }()
		case <-r.Context().Done():
			return
		}
	}
	switch answer := n.answer(req); {
	case n.spoil(r.Context(), w, req.Method, answer):
	case answer == nil: // notification
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

func isPage(method string) bool {
	return method == protocol.GetLedgersMethodName || method == protocol.GetLatestLedgerMethodName
}

// answer returns the response to a request, or nil for a notification.
func (n *Network) answer(req rpcRequest) *rpcResponse {
	if req.Version != "2.0" || req.Method == "" {
		return failed(req.ID, &rpcError{
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
	}
	return &rpcResponse{Version: "2.0", ID: req.ID, Result: result}
}

func failed(id json.RawMessage, err *rpcError) *rpcResponse {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return &rpcResponse{Version: "2.0", ID: id, Error: err}
}

// method decodes the parameters of a method, which must be an object or missing.
func method[P, R any](
	f func(*Network, P) (R, error),
) func(*Network, json.RawMessage) (any, error) {
	return func(n *Network, raw json.RawMessage) (any, error) {
		var p P
		raw = bytes.TrimSpace(raw)
		if len(raw) > 0 && raw[0] != '{' && !bytes.Equal(raw, []byte("null")) {
			return nil, &rpcError{codeInvalidParams, "params must be an object"}
		}
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &p); err != nil {
				return nil, &rpcError{codeInvalidParams, "invalid parameters: " + err.Error()}
			}
		}
		return f(n, p)
	}
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "encode the response: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the client may have disconnected
}
