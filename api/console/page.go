package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/ingress"
	"github.com/lumenhook/lumenhook/internal/printable"
)

var errNoPage = &client.Problem{
	Status: http.StatusNotFound,
	Code:   problem.CodeNotFound,
	Detail: "There is no page at this address.",
}

type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	console *Console
	session session
	api     *client.Client
	backend *backend
	key     domain.Key
	account string
	only    string // the only endpoint that the session may see; empty if it may see the whole account
	status  int    // the page's HTTP status; 0 means 200
}

type page struct {
	name    string
	title   string
	section string // in the navigation
	data    any
}

type (
	pageHandler func(*visit) (page, error)
	// postHandler returns the path to redirect to.
	postHandler func(*visit) (string, error)
	// formHandler returns the path to redirect to, or a page to show: the form again with its errors,
	// or a value that is shown once.
	formHandler func(*visit) (to string, shown *page, err error)
)

type frame struct {
	Title, Section string
	Assets         assetNames
	Notice         string
	Page           any

	// The fields below are for signed-in users. Token is empty for others.
	Token, Once       string
	Account, KeyName  string // for display
	Only              string // like visit.only
	Portal            bool
	Read, Write, Oper bool
}

// readPages parses each page's template together with the frame. Paths in them start with at.
func readPages(at string) (map[string]*template.Template, error) {
	common, err := template.New("frame").Funcs(template.FuncMap{
		"at":     func() string { return at },
		"states": allowed[client.EventFilter]("State"),
		"types":  allowed[client.EventFilter]("Type"),

		"amountChoices":  func() []choice { return amountChoices },
		"memoChoices":    func() []choice { return memoChoices },
		"signatureNames": domain.SignatureNames,
		"memoTypes":      func() []string { return []string{"text", "id", "hash"} },
	}).ParseFS(templateFiles, "templates/_*.html")
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(templateFiles, "templates/[a-z]*.html")
	if err != nil {
		return nil, err
	}
	pages := make(map[string]*template.Template, len(files))
	for _, file := range files {
		own, err := common.Clone()
		if err == nil {
			own, err = own.ParseFS(templateFiles, file)
		}
		if err != nil {
			return nil, err
		}
		pages[strings.TrimSuffix(path.Base(file), ".html")] = own
	}
	return pages, nil
}

// visiting returns the visit of a signed-in user. Without a session, it responds and returns nil.
func (x *Console) visiting(w http.ResponseWriter, r *http.Request) *visit {
	s, ok := x.held(r, forSession)
	if !ok {
		x.toSignIn(w, r, "")
		return nil
	}
	c, b, err := x.clientOf(r, s.Key)
	if err != nil {
		x.fail(w, r, err)
		return nil
	}
	v := &visit{w: w, r: r, console: x, session: s, api: c, backend: b}
	// The API enforces permissions. This lookup is for the buttons, and for pages that send no request
	// to the API, which a revoked key must not see.
	key, of, known, err := x.holderOf(s)
	switch {
	case err != nil:
		x.fail(w, r, err)
		return nil
	case !known || key.Expired(x.Now().UnixMilli()):
		x.forget(w, r, forSession)
		x.toSignIn(w, r, "ended")
		return nil
	}
	if err := x.seen(w, r, s); err != nil {
		x.fail(w, r, err)
		return nil
	}
	v.key, v.account, v.only = key, of.AccountID, of.EndpointID
	return v
}

// toSignIn redirects to the sign-in page. If the user followed a link from another site, the
// browser didn't send the session (SameSite=Strict), so a page of ours makes it try again.
func (x *Console) toSignIn(w http.ResponseWriter, r *http.Request, why string) {
	if x.isPortal() {
		x.showEnded(w, r, "This session has ended, or this browser does not store cookies for this site.")
		return
	}
	query := url.Values{}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			x.write(w, r, http.StatusOK, "again", frame{Title: "One moment", Page: r.URL.RequestURI()})
			return
		}
		query.Set("next", r.URL.RequestURI())
	}
	if why != "" {
		query.Set(why, "")
	}
	http.Redirect(w, r, Path+"/sign-in?"+query.Encode(), http.StatusSeeOther)
}

const (
	// maxPages and maxAccountPages bound the pages that a node makes at once, and separately the
	// forms that it handles. Each keeps its place until the browser has read it, for answerMax at
	// most: places bound the memory of pages, and turns that of the API's answers in them.
	maxPages        = 32
	maxAccountPages = 8
	// pageWaitMax bounds the wait for a place.
	pageWaitMax = 6 * time.Second
	answerMax   = 5 * time.Second

	// Downloads of statements take long, so they have their own places, which leave those of pages
	// free.
	maxDownloads        = 8
	maxAccountDownloads = 2
	downloadMax         = 10 * time.Minute
	downloadPageMax     = time.Minute // for one page of a download, until the next
)

const tooManyPages = "Too many pages of your account are loading at once. Try again."

// limits bound the requests of one kind that a node handles at once.
type limits struct {
	places     *ingress.Places[string]
	perAccount int64
	refusal    string
}

func limitsOf(most, perAccount int64, what string) limits {
	return limits{ingress.NewPlaces[string](most), perAccount, what}
}

// enter waits for a place until ctx ends.
func (l limits) enter(ctx context.Context, account string) (leave func(), err error) {
	return l.places.Await(ctx, account, l.perAccount, 1)
}

// serving returns the handler of a signed-in user's requests.
func (x *Console) serving(within limits, do func(*visit)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := x.visiting(w, r)
		if v == nil {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), pageWaitMax)
		defer cancel()
		leave, err := within.enter(ctx, v.account)
		if err != nil {
			v.answer(page{}, &client.Problem{
				Status: http.StatusTooManyRequests,
				Code:   problem.CodeRateLimited,
				Detail: within.refusal,
			})
			return
		}
		defer leave()
		do(v)
	})
}

// closeSlowReader closes the connection of a browser that reads its answer too slowly.
func closeSlowReader(w http.ResponseWriter, within time.Duration) {
	// Only writers of tests have no deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within))
}

// showing returns the handler of a page.
func (x *Console) showing(show pageHandler) http.Handler {
	return x.serving(x.pages, func(v *visit) { v.answer(show(v)) })
}

// acting returns the handler of a posted form, which acts once however often the form is sent.
func (x *Console) acting(act postHandler) http.Handler {
	return x.filling(func(v *visit) (string, *page, error) {
		to, err := act(v)
		return to, nil, err
	})
}

// filling is like acting, for a form with fields, which may be shown again with its errors.
func (x *Console) filling(act formHandler) http.Handler {
	return x.serving(x.forms, func(v *visit) {
		v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxFilledBytes)
		if !x.posted(v.r, v.session) {
			v.answer(page{}, &client.Problem{
				Status: http.StatusForbidden,
				Code:   "FORM_NOT_OURS",
				Detail: "The form belongs to another session, so nothing was done. Go back, reload the " +
					"page, and try again.",
			})
			return
		}
		to, shown, err := act(v)
		switch {
		case err != nil:
			v.answer(page{}, err)
			return
		case shown != nil:
			v.answer(*shown, nil)
			return
		}
		http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	})
}

func (v *visit) once() client.Option {
	once := v.r.PostFormValue("once")
	if len(once) < 16 || len(once) > 64 {
		once = rand.Text()
	}
	return client.IdempotencyKey("console-" + once)
}

func (v *visit) answer(p page, err error) {
	status := max(v.status, http.StatusOK)
	if err != nil {
		if isCode(err, problem.CodeUnauthenticated) {
			v.console.forget(v.w, v.r, forSession)
			v.console.toSignIn(v.w, v.r, "ended")
			return
		}
		view := v.console.describeError(v.r, err)
		view.Retry = v.r.Method == http.MethodGet && view.Retry
		if v.backend.retrySeconds != "" {
			v.w.Header().Set("Retry-After", v.backend.retrySeconds)
		}
		status, p = view.Status, page{name: "trouble", title: view.Title, data: view}
	}
	v.console.write(v.w, v.r, status, p.name, frame{
		Title:   p.title,
		Section: p.section,
		Notice:  notices[v.r.URL.Query().Get("done")],
		Page:    p.data,
		Token:   v.console.token(v.session),
		Once:    rand.Text(),
		Account: v.account,
		KeyName: v.who(),
		Only:    v.only,
		Portal:  v.console.isPortal(),
		Read:    v.key.Allows(domain.PermissionRead),
		Write:   v.key.Allows(domain.PermissionWrite),
		Oper:    v.key.Allows(domain.PermissionOperate),
	})
}

var notices = map[string]string{
	"tested":   "Test event sent. The response is shown below.",
	"enabled":  "Endpoint enabled. Pending deliveries are being sent.",
	"disabled": "Endpoint disabled. Its deliveries are held until you enable it.",
	"resent":   "Event queued again.",
	"changed":  "Changes saved.",
	"rules": "Changes saved. The new rules apply from the next ledger on. Use a backfill, below, to " +
		"match earlier payments.",
	"moved": "Changes saved. The URL has a different host or port, so headers that you did not " +
		"enter again were removed.",
	"deleted":   "Deleted.",
	"watched":   "Watch created. It matches payments from the next ledger on.",
	"backfill":  "Backfill requested. Its progress is shown below.",
	"sent":      "Pending deliveries are being sent.",
	"sent-some": "The first pending deliveries are being sent. Send the rest when these are done.",
	"replayed":  "Failed deliveries are queued again, up to the limit of one replay.",
}

// who returns the name of the session's key or, in the portal, when the session ends.
func (v *visit) who() string {
	switch {
	case v.console.isPortal():
		return "until " + time.Unix(v.session.EndsSec, 0).UTC().Format("2006-01-02 15:04 UTC")
	case v.key.Name != "":
		return v.key.Name
	}
	return v.key.ID
}

type errorView struct {
	Status        int
	Kind          string // denied, missing, behind, or refused
	Title, Detail string
	Faults        []client.Fault
	Request       string // request id, as in the log
	Again         string // URL to try again
	Retry         bool   // trying again may help
}

// describeError describes an error to a user. It logs errors that didn't come from the API.
func (x *Console) describeError(r *http.Request, err error) errorView {
	var p *client.Problem
	if !errors.As(err, &p) {
		x.Log.Error("cannot render a console page", "path", r.Pattern, "error", err)
		p = &client.Problem{
			Status: http.StatusInternalServerError,
			Detail: "The server failed. See its log for the cause.",
		}
	}
	t := errorView{
		Status: p.Status, Title: p.Title, Detail: p.Detail, Faults: p.Errors, Request: p.RequestID,
		Kind: "refused", Again: r.URL.RequestURI(),
	}
	switch {
	case p.Code == problem.CodeMissingPermission:
		t.Kind, t.Title = "denied", "This key does not have permission"
	case p.Status == http.StatusNotFound:
		t.Kind, t.Title = "missing", "Not found"
	case p.Code == problem.CodeHistoryBehind, p.Code == problem.CodeDirectoryBehind:
		t.Kind, t.Title, t.Retry = "behind", "Still catching up", true
	case p.Status == http.StatusServiceUnavailable, p.Status == http.StatusTooManyRequests:
		t.Retry = true
	case t.Title == "":
		t.Title = "The request was rejected"
	}
	return t
}

func isCode(err error, code string) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Code == code
}

// write renders a page completely before it sends it. If that fails, it sends a plain error.
func (x *Console) write(
	w http.ResponseWriter, r *http.Request, status int, name string, f frame,
) {
	f.Assets = x.names
	var out bytes.Buffer
	if err := x.templates[name].ExecuteTemplate(&out, "frame", f); err != nil {
		x.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	closeSlowReader(w, answerMax)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, shown(out.String()))
	}
}

// kept matches the values that a form posts back, which must not change.
var kept = regexp.MustCompile(`value="[^"]*"|<textarea[^>]*>[^<]*`)

// shown escapes invisible characters, so that text from third parties cannot hide anything or
// change the text around it, for example its direction.
func shown(page string) string {
	var out strings.Builder
	from := 0
	for _, at := range kept.FindAllStringIndex(page, -1) {
		out.WriteString(printable.Text(page[from:at[0]]) + page[at[0]:at[1]])
		from = at[1]
	}
	return out.String() + printable.Text(page[from:])
}

func (x *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	x.Log.Error("cannot render a console page", "path", r.Pattern, "error", err)
	http.Error(w, "The server failed. See its log for the cause.", http.StatusInternalServerError)
}
