package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
)

const maxScrapers = 64

// ServeOperations serves /metrics, /healthz, /readyz and /ledger-sources on a separate listener,
// because they concern the process and the API's address is public. It returns the address.
func (n *Node) ServeOperations(listen string) (address string, err error) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return "", fmt.Errorf("--metrics-listen: %w", err)
	}
	guarded := n.cfg.API.Server.Guard(listen).Wrap(n.operations())
	server, err := NewHTTPServer(HTTPConfig{
		Server:   api.NewServer(guarded, n.cfg.Logger),
		MaxConns: maxScrapers,
		Share:    1.0 / 32,
		Log:      n.cfg.Logger,
	})
	if err != nil {
		return "", errors.Join(err, listener.Close())
	}
	operations := n.part()
	operations.serve("operations", server, listener)
	n.stack.OnStop(operations.Stop)
	return listener.Addr().String(), nil
}

// operations handles operators' requests. The root redirects to the metrics.
func (n *Node) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", n.cfg.Metrics.handler())
	mux.Handle("GET /{$}", http.RedirectHandler("/metrics", http.StatusTemporaryRedirect))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, readiness{Status: "ok", DataDir: n.cfg.RunDir})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		status, view := readinessOf(n.readyNow(r.Context()))
		view.DataDir = n.cfg.RunDir
		view.Checks = append(view.Checks, n.history.waits()...)
		answer(w, status, view)
	})
	mux.HandleFunc("GET /ledger-sources", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, n.ledgerSources())
	})
	return mux
}

// LedgerSources is the state of a process's ledger sources, for operators.
type LedgerSources struct {
	Follower  bool `json:"follower"`  // the process has the role
	Following bool `json:"following"` // it reads ledgers now; otherwise it is a standby
	domain.SourceStatuses
}

func (n *Node) ledgerSources() (view LedgerSources) {
	if n.cfg.Follower.Standings == nil {
		return view
	}
	view.Follower, view.Following = true, n.follower.follows()
	view.SourceStatuses = n.cfg.Follower.Standings()
	return view
}

// readiness is the body of /readyz, in the API's format. DataDir is the folder of `lumenhook run`,
// so that `lumenhook health` for another folder rejects the response.
type readiness struct {
	Status  string      `json:"status"`
	DataDir string      `json:"dataDir,omitempty"`
	Checks  []readyPart `json:"checks,omitempty"`
}

type readyPart struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func readinessOf(reports []Report) (status int, view readiness) {
	status, view.Status = http.StatusOK, "ready"
	for _, r := range reports {
		shown := readyPart{Name: r.Name, Status: "ok"}
		if r.Err != nil {
			shown.Status, shown.Detail = "failed", r.Err.Error()
			status, view.Status = http.StatusServiceUnavailable, "not ready"
		}
		view.Checks = append(view.Checks, shown)
	}
	return status, view
}

func answer(w http.ResponseWriter, status int, view any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(view) // the client may be gone
}
