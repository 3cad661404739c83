package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/ingress"
)

// Limits of the server. A client has readTimeout to send its request, a turn comes within turnMax,
// and the parts behind the API have workTimeout. writeTimeout is longer than all of them together.
const (
	workTimeout       = 15 * time.Second
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 20 * time.Second
	writeTimeout      = 45 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10

	defaultMaxRequests = 4096

	// commandWait bounds the wait for a command's answer. A test is answered after its first
	// attempt, which may take its full timeout (specification, "Limits"), so its limit is a little
	// longer.
	commandWait     = 5 * time.Second
	defaultTestWait = 13 * time.Second
)

// Config contains the dependencies and settings of the API. All fields down to Log are required.
type Config struct {
	Commands  Commands
	Directory Directory
	History   History
	Ledgers   Ledgers
	Sealer    Sealer
	Wallets   Wallets
	URLs      URLPolicy
	Entropy   io.Reader // crypto/rand.Reader except in simulations
	Now       func() time.Time
	Log       *slog.Logger

	// SigningKeys are the Ed25519 keys of the deployment and its endpoints; nil if there are none.
	SigningKeys SigningKeys
	// Transactions looks up payments that the history does not have; nil if it is unavailable.
	Transactions Transactions
	// Uses records when keys are used; nil disables it.
	Uses KeyUses
	// PortalLinks signs and verifies portal links. Nodes that share its key accept each other's
	// links. If it is nil, links work only at this node until it stops.
	PortalLinks *domain.PortalSigner
	// DeriveKey derives 256 bits from a label and a secret that all nodes share, so that retrying
	// the creation of a key returns the same key. Without it, or after the secret has changed, a
	// retry returns no key.
	DeriveKey func(label string) [32]byte
	Live      bool      // the public network: keys start with whk_live_
	RateLimit RateLimit // per account
	// TrustedProxies are the proxies whose X-Forwarded-For header is used for keys that are
	// restricted to networks. Without any, only the connection's address counts.
	TrustedProxies []netip.Prefix
	TestWait       time.Duration // wait for a test's first attempt; 0: 13 s

	Checks      []Check // conditions of /readyz, besides the directory's
	MaxRequests int     // with a key, at once; 0: 4096
	// Answered, if set, is called for each answered request. The route is its template,
	// never the path.
	Answered func(route, method string, status int, took time.Duration)
}

func (c Config) validate() error {
	var missing []error
	for name, absent := range map[string]bool{
		"Commands":  c.Commands == nil,
		"Directory": c.Directory == nil, "History": c.History == nil, "Ledgers": c.Ledgers == nil,
		"Sealer":  c.Sealer == nil,
		"Wallets": c.Wallets == nil,
		"URLs":    c.URLs == nil, "Entropy": c.Entropy == nil, "Now": c.Now == nil, "Log": c.Log == nil,
	} {
		if absent {
			missing = append(missing, fmt.Errorf("api: Config.%s is missing: set it", name))
		}
	}
	if c.MaxRequests < 0 {
		missing = append(missing,
			fmt.Errorf("api: Config.MaxRequests is %d: use 0 or a positive number", c.MaxRequests))
	}
	return errors.Join(missing...)
}

// API is the HTTP handler of the REST API. It is safe for concurrent use.
type API struct {
	Config
	router   *mux.Router
	parallel *ingress.Places[holder] // requests in progress
	bodies   *ingress.Places[holder] // bytes of their bodies
	limits   *limits
	lookups  *limits                 // of transactions in the network
	looking  *ingress.Places[holder] // at the network
	tests    *limits                 // of endpoints
	warnings *warnings
	usage    *keyUsage
	unread   *unreadWrites           // what concerns deliveries
	turns    *ingress.Places[holder] // of reads and bulk operations
	waiters  *ingress.Places[holder] // for events
	counting *ingress.Places[holder] // for a ledger of a statement to count
	ending   context.Context         // ends all waits for events
	endWaits context.CancelFunc
	// unreadFacts are all that a history of an object shows.
	unreadFacts *unreadWrites
	// cursorKey is shared by all nodes, so that their cursors are interchangeable.
	cursorKey [32]byte
}

// New returns the API.
func New(c Config) (*API, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.MaxRequests = cmp.Or(c.MaxRequests, defaultMaxRequests)
	c.TestWait = cmp.Or(c.TestWait, defaultTestWait)
	a := &API{
		Config:   c,
		router:   mux.NewRouter().SkipClean(true),
		parallel: ingress.NewPlaces[holder](int64(c.MaxRequests)),
		bodies:   ingress.NewPlaces[holder](bodyBytesMax),
		limits:   newLimits(c.RateLimit, c.Now),
		lookups:  newLimits(lookupLimit, c.Now),
		tests:    newLimits(testLimit, c.Now),
		looking:  ingress.NewPlaces[holder](maxLooking),
		warnings: newWarnings(),
		usage:    newKeyUsage(),
		unread:   newUnreadWrites(),
		turns:    ingress.NewPlaces[holder](maxRunningInAll),
		waiters:  ingress.NewPlaces[holder](maxWaiters),
		counting: ingress.NewPlaces[holder](maxWaiters),

		unreadFacts: newUnreadWrites(),
	}
	a.ending, a.endWaits = context.WithCancel(context.Background())
	if c.DeriveKey != nil {
		a.cursorKey = c.DeriveKey("cursors of lists")
	}
	if a.PortalLinks == nil {
		var own [32]byte
		if _, err := io.ReadFull(a.Entropy, own[:]); err != nil {
			return nil, fmt.Errorf("api: drawing the key of portal links: %w", err)
		}
		a.PortalLinks = domain.NewPortalSigner(own)
	}
	for _, rt := range a.routes() {
		a.router.Handle(rt.path, a.answering(rt)).Methods(rt.methods...)
	}
	for at, handle := range map[string]handler{"/": toDocs, "/docs/": toDocs, docsFiles: a.getDocs} {
		a.router.Handle(at, a.answering(route{path: at, handle: handle})).
			Methods(http.MethodGet, http.MethodHead)
	}
	a.router.NotFoundHandler = a.refusing(a.notFound)
	a.router.MethodNotAllowedHandler = a.refusing(a.methodNotAllowed)
	return a, nil
}

// route is one operation. A route without a permission needs no key.
type route struct {
	path       string
	methods    []string
	permission domain.Permission
	body       decode.BodyKind
	// subject finds the object in the path before the body is read. It is nil if the path names no
	// object or the handler finds it.
	subject func(context.Context, *request) error
	handle  handler
	accepts accepts
}

// writes reports whether the route changes anything. A GET that needs more than read changes
// nothing: pulling events needs operate because it returns signatures.
func (rt route) writes() bool {
	may := rt.permission == domain.PermissionWrite || rt.permission == domain.PermissionOperate
	return may && rt.methods[0] != http.MethodGet
}

// needsTurn reports whether an account may run only a few requests of the route concurrently.
func (rt route) needsTurn() bool {
	return rt.permission == domain.PermissionRead || rt.accepts&bulk != 0
}

// accepts lists what else a route accepts in a request. Everything else that would change the
// meaning of a request is refused instead of ignored.
type accepts int

const (
	withQuery   accepts = 1 << iota // parameters, which the handler checks
	withIfMatch                     // a precondition
	mayWait                         // up to waitMax in addition to its work
	keysOnly                        // no credentials of portal links
	bulk                            // much work per request, so it takes turns like reads
	// narrows means that the handler itself restricts a portal link for one endpoint to that
	// endpoint. If the path names an endpoint or a watch, confine does it.
	narrows
)

func (a *API) routes() []route {
	get, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	patch, del := []string{http.MethodPatch}, []string{http.MethodDelete}
	const read, write = domain.PermissionRead, domain.PermissionWrite
	const operate = domain.PermissionOperate
	endpoint, watch, key := a.findEndpoint, a.findWatch, a.findKey
	const noBody, emptyBody, jsonBody = decode.BodyIgnored, decode.BodyEmpty, decode.BodyJSON
	return append(a.openRoutes(), []route{
		{"/v1/endpoints", post, write, jsonBody, nil, a.createEndpoint, 0},
		{"/v1/endpoints", get, read, noBody, nil, a.listEndpoints, withQuery | narrows},
		{"/v1/endpoints/{id}", get, read, noBody, endpoint, a.getEndpoint, 0},
		{"/v1/endpoints/{id}", patch, write, decode.BodyPatch, endpoint, a.updateEndpoint, withIfMatch},
		{"/v1/endpoints/{id}", del, write, noBody, endpoint, a.deleteEndpoint, withIfMatch | withQuery},
		{"/v1/endpoints/{id}/enable", post, operate, emptyBody, endpoint, a.enableEndpoint, withIfMatch},
		{
			"/v1/endpoints/{id}/disable", post, operate, emptyBody, endpoint,
			a.disableEndpoint, withIfMatch,
		},
		{
			"/v1/endpoints/{id}/rotate-secret", post, write, emptyBody, endpoint,
			a.rotateSecret, withIfMatch,
		},
		{
			"/v1/endpoints/{id}/rotate-signing-key", post, write, emptyBody, endpoint,
			a.rotateSigningKey, withIfMatch,
		},
		{"/v1/endpoints/{id}/test", post, operate, decode.BodyOptional, endpoint, a.testEndpoint, 0},
		{"/v1/endpoints/{id}/replay", post, operate, jsonBody, endpoint, a.replayEndpoint, bulk},
		{
			"/v1/endpoints/{id}/events", get, operate, noBody, endpoint,
			a.pullEvents, withQuery | mayWait | bulk,
		},
		{"/v1/endpoints/{id}/history", get, read, noBody, nil, a.getEndpointHistory, withQuery},
		{"/v1/watches", post, write, jsonBody, nil, a.createWatch, narrows},
		{"/v1/watches", get, read, noBody, nil, a.listWatches, withQuery | narrows},
		{"/v1/watches/{id}", get, read, noBody, watch, a.getWatch, 0},
		{"/v1/watches/{id}", patch, write, decode.BodyPatch, watch, a.updateWatch, withIfMatch},
		{"/v1/watches/{id}", del, write, noBody, watch, a.deleteWatch, withIfMatch},
		{"/v1/events/{id}/history", get, read, noBody, nil, a.getEventHistory, withQuery | narrows},
		{"/v1/watches/{id}/history", get, read, noBody, nil, a.getWatchHistory, withQuery},
		{"/v1/watches/{id}/check", get, read, noBody, watch, a.checkWatch, withQuery},
		{"/v1/watches/{id}/backfill", post, operate, jsonBody, watch, a.backfillWatch, bulk},
		{"/v1/events", get, read, noBody, nil, a.listEvents, withQuery | narrows},
		{"/v1/events/resend", post, operate, jsonBody, nil, a.resendEvents, narrows | bulk},
		{"/v1/events/{id}", get, read, noBody, nil, a.getEvent, narrows},
		{"/v1/events/{id}/receipt", get, read, noBody, nil, a.getReceipt, withQuery | narrows},
		{"/v1/events/{id}/resend", post, operate, emptyBody, nil, a.resendEvent, narrows | bulk},
		{"/v1/api-keys", post, write, jsonBody, nil, a.createKey, keysOnly},
		{"/v1/api-keys", get, read, noBody, nil, a.listKeys, withQuery | keysOnly},
		{"/v1/api-keys/{id}", get, read, noBody, key, a.getKey, keysOnly},
		{"/v1/api-keys/{id}", del, write, noBody, key, a.revokeKey, keysOnly},
		{"/v1/api-keys/{id}/roll", post, write, decode.BodyOptional, key, a.rollKey, keysOnly},
		{"/v1/account", get, read, noBody, nil, a.getAccount, keysOnly},
		{"/v1/portal-links", post, read, jsonBody, nil, a.createPortalLink, keysOnly},
		{"/v1/transactions/{hash}", get, read, noBody, nil, a.explainTransaction, 0},
		{"/v1/wallets/{address}/statement", get, read, noBody, nil, a.getStatement, withQuery},
		{"/v1/attempts/rates", get, read, noBody, nil, a.getRates, withQuery | narrows},
		{"/v1/coverage", get, read, noBody, nil, a.getCoverage, narrows},
	}...)
}

func (a *API) openRoutes() []route {
	get := []string{http.MethodGet, http.MethodHead}
	const noBody = decode.BodyIgnored
	return []route{
		{"/v1/openapi.yaml", get, "", noBody, nil, a.getOpenAPI, 0},
		{"/v1/openapi.json", get, "", noBody, nil, a.getOpenAPIJSON, 0},
		{"/docs", get, "", noBody, nil, a.getDocs, 0},
		{"/docs/signature-vectors.json", get, "", noBody, nil, a.getVectors, 0},
		{"/.well-known/jwks.json", get, "", noBody, nil, a.getJWKS, 0},
		{"/.well-known/endpoints/{id}/jwks.json", get, "", noBody, nil, a.getEndpointJWKS, 0},
		{"/healthz", get, "", noBody, nil, a.getHealth, 0},
		{"/readyz", get, "", noBody, nil, a.getReadiness, 0},
	}
}

// NewServer returns the HTTP server of the API, with limits on everything that a slow client can
// prolong. The caller provides the listener.
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
