package api

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/domain"
)

// Limits of the server. A client has readTimeout to send its request, the parts
// behind the API have workTimeout, and writeTimeout is more than both.
const (
	workTimeout       = 15 * time.Second
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 20 * time.Second
	writeTimeout      = 40 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10

	defaultMaxRequests = 4096
)

// Config is what the API is made of. All fields down to
// Metrics are required.
type Config struct {
	Commands  Commands
	Directory Directory
	History   History
	Sealer    Sealer
	Wallets   Wallets
	URLs      URLPolicy
	Entropy   io.Reader // crypto/rand.Reader but in simulations
	Now       func() time.Time
	Log       *slog.Logger
	Metrics   http.Handler // answers /metrics

	Checks      []Check // conditions of /readyz, beside the directory's
	MaxRequests int     // at once; 0: 4096
	// Answered is told of each answered request, if it is set. The route is its
	// template, never the path.
	Answered func(route, method string, status int, took time.Duration)
}

func (c Config) validate() error {
	var missing []error
	for name, absent := range map[string]bool{
		"Commands": c.Commands == nil, "Directory": c.Directory == nil, "History": c.History == nil, "Sealer": c.Sealer == nil,
		"Wallets": c.Wallets == nil, "URLs": c.URLs == nil, "Entropy": c.Entropy == nil, "Now": c.Now == nil, "Log": c.Log == nil, "Metrics": c.Metrics == nil,
	} {
		if absent {
			missing = append(missing, fmt.Errorf("api: Config.%s is missing: set it", name))
		}
	}
	if c.MaxRequests < 0 {
		missing = append(missing, fmt.Errorf("api: Config.MaxRequests is %d: use 0 or a positive number", c.MaxRequests))
	}
	return errors.Join(missing...)
}

// API answers requests. It is safe for concurrent use.
type API struct {
	Config
	router *mux.Router
	slots  chan struct{} // one for each request that is being answered
}

// New makes the API.
func New(c Config) (*API, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = defaultMaxRequests
	}
	a := &API{Config: c, router: mux.NewRouter().SkipClean(true), slots: make(chan struct{}, c.MaxRequests)}
	for _, rt := range a.routes() {
		a.router.Handle(rt.path, a.answering(rt)).Methods(rt.methods...)
	}
	a.router.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		exchangeOf(r).route = "/metrics"
		c.Metrics.ServeHTTP(w, r)
	}).Methods(http.MethodGet, http.MethodHead)
	a.router.NotFoundHandler = a.refusing(a.notFound)
	a.router.MethodNotAllowedHandler = a.refusing(a.methodNotAllowed)
	return a, nil
}

// route is one operation. Without a permission it is open to everyone.
type route struct {
	path       string
	methods    []string
	permission domain.Permission
	takesBody  bool
	handle     handler
}

// routes is the one list of operations.
func (a *API) routes() []route {
	get, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	return []route{
		{"/v1/endpoints", post, domain.PermissionWrite, true, a.createEndpoint},
		{"/v1/watches", post, domain.PermissionWrite, true, a.createWatch},
		{"/v1/events/{id}", get, domain.PermissionRead, false, a.getEvent},
		{"/v1/openapi.yaml", get, "", false, a.getOpenAPI},
		{"/healthz", get, "", false, a.getHealth},
		{"/readyz", get, "", false, a.getReadiness},
	}
}

// NewServer makes the HTTP server of the API, with a limit on everything that a
// client can drag out. Serve it on a listener of the caller's.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
