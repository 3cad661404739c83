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
)

// Path is where the console is: every address of it is this one, or below it. The portal is at
// domain.PortalPath.
const Path = "/console"

// policy lets a page use this server's own style sheet, script and icon, post its forms here and
// follow changes from here, and nothing else. Who may frame it is added (policyOf).
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'"

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// Keys finds API keys. It is the API's own directory, and tells what a key may do: only to leave
// out buttons that the API would refuse.
type Keys interface {
	KeyByHash(hash []byte) (key domain.Key, accountID string, found bool, err error)
	Account(id string) (account domain.Account, found bool, err error)
	// KeyUsedAt returns what Sessions wrote of a session: when it would have ended; 0: nothing.
	KeyUsedAt(id string) (millis int64, err error)
}

// Sessions tells all nodes which sessions were ended before their end. Keys has it soon after.
type Sessions interface {
	EndSession(ctx context.Context, id string, untilMillis int64) error
	Forget(id string) // it would have ended
}

// Config are the dependencies of the console. All down to Log are required.
type Config struct {
	API      http.Handler // answers /v1
	Keys     Keys
	Sessions Sessions
	Entropy  io.Reader // of session ids and nonces: crypto/rand.Reader
	Now      func() time.Time
	Log      *slog.Logger
	// DeriveKey derives 256 bits from a label and a secret that all nodes share, so that they
	// share sessions. Without it sessions end with the process.
	DeriveKey func(label string) [32]byte
	// Portal, if set, makes this the portal: its pages are at domain.PortalPath, and links that this
	// signer reads open them instead of keys.
	Portal *domain.PortalSigner
	// FrameAncestors are the origins whose pages may show the portal's in a frame; none: no page may.
	FrameAncestors []string
	// DisableAfter runs in a row that end FAILED disable an endpoint; 0: none do.
	DisableAfter int
	Schedule     domain.Schedule // of attempts; empty: one is made
	IdleMax      time.Duration   // without a person, after which a session ends; 0: 15 minutes
	// LookEvery is how often an open page's changes are looked for; 0: 2 seconds.
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

// Console answers requests below its path. It is safe for concurrent use.
type Console struct {
	Config
	at       string // its path
	policy   string
	mux      *http.ServeMux
	sealed   cipher.AEAD
	tokenKey [32]byte
	pages    map[string]*template.Template
	assets   map[string]asset
	names    assetNames
	links    *usedLinks
	ended    *usedLinks // sessions that were signed out here
	streams  *streams
}

// asset is a file that pages use. Its address names its content, so that browsers keep it.
type asset struct {
	content     []byte
	contentType string
}

// assetNames are the addresses of the assets.
type assetNames struct{ Style, Script, Icon string }

// New makes the console.
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
		streams: newStreams(),
	}
	name := strings.TrimPrefix(x.at, "/")
	x.tokenKey = c.DeriveKey(name + ": tokens of forms")
	var err error
	if x.sealed, err = newAEAD(c.DeriveKey(name + ": sessions")); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if err := x.readAssets(); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if x.pages, err = readPages(x.at); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	x.mux = x.routes()
	return x, nil
}

// Mount returns a handler for the console and the given API.
func (x *Console) Mount(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == x.at || strings.HasPrefix(r.URL.Path, x.at+"/") {
			x.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// routes is the one list of pages and of what they post.
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
	get("/endpoints/{id}/rotate", x.askToRotate)
	get("/endpoints/{id}/replay", x.countReplay)
	get("/endpoints/{id}/pending", x.countPending)
	get("/endpoints/{id}/history", x.showEndpointHistory)
	get("/events", x.listEvents)
	get("/events/{id}", x.showEvent)
	get("/events/{id}/history", x.showEventHistory)
	mux.HandleFunc("GET "+x.at+"/events/{id}/receipt", x.downloadReceipt)
	get("/watches", x.listWatches)
	get("/watches/new", x.newWatch)
	get("/watches/{id}", x.showWatch)
	get("/watches/{id}/edit", x.editWatch)
	get("/watches/{id}/delete", asking(x.watchToDelete))
	get("/watches/{id}/history", x.showWatchHistory)
	get("/transactions/{hash}", x.showTransaction)
	get("/wallets/{address}", x.showStatement)
	mux.HandleFunc("GET "+x.at+"/wallets/{address}/statement.csv", x.downloadStatement)
	for path, read := range map[string]func(*visit) error{
		"/events/live": x.followEvents, "/events/{id}/live": x.followEvent,
	} {
		mux.Handle("GET "+x.at+path, x.streaming(read, 1))
	}
	// Health is a sum over many attempts, and changes with each of them.
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

// ServeHTTP answers with a page.
func (x *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", x.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// With no-referrer, browsers would send "Origin: null" with a form (Fetch, section 3.2), and
	// the guard of the server's port refuses that.
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
	_, _ = w.Write(file.content) // the browser may be gone: the error concerns nobody
}
