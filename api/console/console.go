package console

import (
	"cmp"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/ingress"
)

// Path is the console's path. All its pages are at or below it. The portal uses domain.PortalPath
// instead.
const Path = "/console"

// policy allows a page only this server's style sheet, script and icon, forms and event streams.
// policyOf adds who may frame the page.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'"

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// Keys looks up API keys in the API's own directory. The console only uses it to validate sessions
// and to hide buttons for which the API would reject the request.
type Keys interface {
	KeyByHash(hash []byte) (key domain.Key, accountID string, found bool, err error)
	Account(id string) (account domain.Account, found bool, err error)
	// KeyUsedAt returns the end that Sessions recorded for a session, or 0 if there is none.
	KeyUsedAt(id string) (millis int64, err error)
	// ExpiredSessions returns some of these records, from an id on, whose end has passed.
	ExpiredSessions(from string, nowMillis int64) (ids []string, err error)
}

// Sessions tells all nodes about sessions that were signed out. The record appears in Keys after a
// short delay.
type Sessions interface {
	EndSession(ctx context.Context, id string, untilMillis int64) error
	Forget(id string) // removes the record of an expired session
}

// Config configures a Console. The fields from API to Log are required.
type Config struct {
	API      http.Handler
	Keys     Keys
	Sessions Sessions
	Entropy  io.Reader // for session ids and nonces: crypto/rand.Reader
	Now      func() time.Time
	Log      *slog.Logger
	// DeriveKey derives a 256-bit key from a label and a secret that all nodes share, so that a
	// session works at every node. If it is nil, sessions end with the process.
	DeriveKey func(label string) [32]byte
	// Portal, if set, turns the console into the portal: its pages are at domain.PortalPath, and links
	// that this signer accepts take the place of keys.
	Portal *domain.PortalSigner
	// FrameAncestors are the origins that may frame the portal's pages. If empty, none may.
	FrameAncestors []string
	// DisableAfter is how many consecutive runs must fail before an endpoint is disabled, or 0 if that
	// never happens.
	DisableAfter int
	Schedule     domain.Schedule // of attempts; empty: one attempt
	IdleMax      time.Duration   // without user activity; default: 15 minutes
	// LookEvery is how often an open page checks for changes. The default is 2 seconds.
	LookEvery time.Duration
}

func (c Config) validate() error {
	switch {
	case c.API == nil, c.Keys == nil, c.Sessions == nil, c.Entropy == nil, c.Now == nil, c.Log == nil:
		return errors.New("console: Config.API, Keys, Sessions, Entropy, Now and Log are required: " +
			"set them")
	}
	return nil
}

// Console is an http.Handler for its path. It is safe for concurrent use.
type Console struct {
	Config
	at        string
	policy    string
	mux       *http.ServeMux
	sealed    cipher.AEAD
	tokenKey  [32]byte
	templates map[string]*template.Template
	assets    map[string]asset
	names     assetNames
	links     *usedLinks
	ended     *usedLinks              // sessions that were signed out at this node
	streams   *ingress.Places[string] // by account
	// narrowStreams are those of links of one endpoint, by endpoint.
	narrowStreams *ingress.Places[string]
	pages, forms  limits
	downloads     limits
	ending        context.Context // ends all streams
	endStreams    context.CancelFunc
}

// asset is a file that pages use. Its name contains a hash of its contents, so that browsers can
// cache it.
type asset struct {
	content     []byte
	contentType string
}

type assetNames struct{ Style, Script, Icon string }

// New creates a Console.
func New(c Config) (*Console, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.DeriveKey == nil {
		var own [32]byte
		if _, err := io.ReadFull(rand.Reader, own[:]); err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		c.DeriveKey = func(label string) [32]byte { return sha256.Sum256(append(own[:], label...)) }
	}
	c.IdleMax = cmp.Or(c.IdleMax, idleMax)
	if c.LookEvery <= 0 {
		c.LookEvery = lookEvery
	}
	x := &Console{
		Config:  c,
		at:      pathOf(c.Portal),
		policy:  policyOf(c.FrameAncestors),
		assets:  make(map[string]asset),
		links:   newUsedLinks(),
		ended:   newUsedLinks(),
		streams: ingress.NewPlaces[string](maxStreams),
		pages:   limitsOf(maxPages, maxAccountPages, tooManyPages),
		forms:   limitsOf(maxPages, maxAccountPages, tooManyPages),
		downloads: limitsOf(maxDownloads, maxAccountDownloads, "Too many statements are being "+
			"downloaded at once. Try again when another download has ended."),

		narrowStreams: ingress.NewPlaces[string](maxStreams),
	}
	x.ending, x.endStreams = context.WithCancel(context.Background())
	name := strings.TrimPrefix(x.at, "/")
	x.tokenKey = c.DeriveKey(name + ": tokens of forms")
	var err error
	if x.sealed, err = newAEAD(c.DeriveKey(name + ": sessions")); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if err := x.readAssets(); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if x.templates, err = readPages(x.at); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	x.mux = x.routes()
	return x, nil
}

// Mount returns a handler that serves the console and passes all other requests to api.
func (x *Console) Mount(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == x.at || strings.HasPrefix(r.URL.Path, x.at+"/") {
			x.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

func (x *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	x.routePages(mux)
	x.routeForms(mux)
	if x.isPortal() {
		mux.HandleFunc("GET "+x.at+"/link", x.openPortal)
	} else {
		mux.HandleFunc("GET "+x.at+"/sign-in", x.showSignIn)
		mux.HandleFunc("POST "+x.at+"/sign-in", x.signIn)
		mux.HandleFunc("GET "+x.at+"/link", x.followLink)
	}
	mux.HandleFunc("GET "+x.at+"/assets/{name}", x.serveAsset)
	mux.Handle(x.at+"/", x.showing(func(*visit) (page, error) { return page{}, errNoPage }))
	return mux
}

func (x *Console) routePages(mux *http.ServeMux) {
	get := func(p string, show pageHandler) { mux.Handle("GET "+x.at+p, x.showing(show)) }
	get("", x.overview)
	get("/endpoints", x.listEndpoints)
	get("/endpoints/new", x.newEndpoint)
	get("/endpoints/{id}", x.showEndpoint)
	get("/endpoints/{id}/edit", x.editEndpoint)
	get("/endpoints/{id}/delete", asking(x.endpointToDelete))
	get("/endpoints/{id}/rotate", x.confirmRotation)
	get("/endpoints/{id}/replay", x.countReplay)
	get("/endpoints/{id}/pending", x.countPending)
	get("/endpoints/{id}/history", x.showEndpointHistory)
	get("/events", x.listEvents)
	get("/events/{id}", x.showEvent)
	get("/events/{id}/history", x.showEventHistory)
	mux.Handle("GET "+x.at+"/events/{id}/receipt", x.serving(x.pages, x.downloadReceipt))
	get("/watches", x.listWatches)
	get("/watches/new", x.newWatch)
	get("/watches/{id}", x.showWatch)
	get("/watches/{id}/edit", x.editWatch)
	get("/watches/{id}/delete", asking(x.watchToDelete))
	get("/watches/{id}/history", x.showWatchHistory)
	get("/transactions/{hash}", x.showTransaction)
	get("/wallets/{address}", x.showStatement)
	mux.Handle("GET "+x.at+"/wallets/{address}/statement.csv",
		x.serving(x.downloads, x.downloadStatement))
	for path, read := range map[string]func(*visit) error{
		"/events/live": x.followEvents, "/events/{id}/live": x.followEvent,
	} {
		mux.Handle("GET "+x.at+path, x.streaming(read, 1))
	}
	// Health depends on many attempts and changes with each of them, so it is checked less often.
	for path, read := range map[string]func(*visit) error{
		"/live": followWorst(longestPage), "/endpoints/live": followWorst(listPage),
		"/endpoints/{id}/live": followEndpoint,
	} {
		mux.Handle("GET "+x.at+path, x.streaming(read, 3))
	}
}

func (x *Console) routeForms(mux *http.ServeMux) {
	post := func(p string, act postHandler) { mux.Handle("POST "+x.at+p, x.acting(act)) }
	fill := func(p string, act formHandler) { mux.Handle("POST "+x.at+p, x.filling(act)) }
	post("/endpoints/{id}/test", x.testEndpoint)
	post("/endpoints/{id}/enable", x.enableEndpoint)
	post("/endpoints/{id}/disable", x.disableEndpoint)
	post("/endpoints/{id}/replay", x.replayEndpoint)
	post("/endpoints/{id}/pending", x.sendPending)
	post("/events/{id}/resend", x.resendEvent)
	fill("/endpoints/new", x.createEndpoint)
	fill("/endpoints/{id}/edit", x.updateEndpoint)
	fill("/endpoints/{id}/rotate", x.rotateSecret)
	fill("/endpoints/{id}/delete", x.deleting(x.endpointToDelete, deleteEndpoint))
	fill("/watches/new", x.createWatch)
	fill("/watches/{id}/edit", x.updateWatch)
	fill("/watches/{id}/delete", x.deleting(x.watchToDelete, deleteWatch))
	fill("/watches/{id}/backfill", x.backfillWatch)
	post("/sign-out", x.signOut)
}

// ServeHTTP implements http.Handler.
func (x *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", x.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// With no-referrer, browsers would send "Origin: null" with a form (Fetch, section 3.2), which the
	// guard of the server's port rejects.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	x.mux.ServeHTTP(w, r)
}

func (x *Console) readAssets() error {
	types := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml",
	}
	return fs.WalkDir(assetFiles, "assets", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := assetFiles.ReadFile(file)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		ext := path.Ext(file)
		name := strings.TrimSuffix(path.Base(file), ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		x.assets[name] = asset{content: content, contentType: types[ext]}
		switch at := x.at + "/assets/" + name; ext {
		case ".css":
			x.names.Style = at
		case ".js":
			x.names.Script = at
		case ".svg":
			x.names.Icon = at
		}
		return nil
	})
}

func (x *Console) serveAsset(w http.ResponseWriter, r *http.Request) {
	file, found := x.assets[r.PathValue("name")]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", file.contentType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(file.content)
}
