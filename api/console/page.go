package console

import (
	"bytes"
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
	"github.com/lumenhook/lumenhook/internal/printable"
)

// errNoPage is the error of an address without a page.
var errNoPage = &client.Problem{
	Status: http.StatusNotFound,
	Code:   problem.CodeNotFound,
	Detail: "There is no page at this address.",
}

// visit is one request of a user who is signed in.
type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	console *Console
	session session
	api     *client.Client
	backend *backend
	key     domain.Key
	account string
	only    string // the session's only endpoint; empty: all of the account
	status  int    // of the page; 0: 200
}

// page is a handler's result: a template and its data.
type page struct {
	name    string
	title   string
	section string // of the navigation
	data    any
}

type (
	pageHandler func(*visit) (page, error)
	// postHandler returns the next address of the browser.
	postHandler func(*visit) (string, error)
	// formHandler returns the next address of the browser, or a page to show: the form again, with
	// its errors, or a value that is shown once.
	formHandler func(*visit) (to string, shown *page, err error)
)

// frame is the data of a whole page.
type frame struct {
	Title, Section string
	Assets         assetNames
	Notice         string
	Page           any

	// Of a user who is signed in; Token is empty for others.
	Token, Once       string
	Account, KeyName  string // of the session, for display
	Only              string // the session's only endpoint; empty: all of the account
	Portal            bool
	Read, Write, Oper bool
}

// readPages parses each page with the frame around it. Addresses in them begin with a path.
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

// visiting returns the visit of a signed-in user. Without a session, it answers and returns nil.
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
	// The API decides what the key may do. This lookup is for the buttons, and for pages that make no
	// request to the API: they must not be shown to a revoked key.
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

// toSignIn sends a browser to the sign-in page. A browser that follows another site's link does not
// send the session (SameSite=Strict), so a page of ours makes it try again.
func (x *Console) toSignIn(w http.ResponseWriter, r *http.Request, why string) {
	if x.isPortal() {
		x.showEnded(w, r, "What the link opened has ended, or this browser keeps no cookies here.")
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

// showing returns the handler of a page.
func (x *Console) showing(show pageHandler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := x.visiting(w, r)
		if v == nil {
			return
		}
		p, err := show(v)
		v.answer(p, err)
	})
}

// acting returns the handler of a posted form, which acts once however often the form is sent.
func (x *Console) acting(act postHandler) http.Handler {
	return x.filling(func(v *visit) (string, *page, error) {
		to, err := act(v)
		return to, nil, err
	})
}

// filling is acting for a form with fields, which may be shown again with its errors.
func (x *Console) filling(act formHandler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := x.visiting(w, r)
		if v == nil {
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxFilledBytes)
		if !x.posted(r, v.session) {
			v.answer(page{}, &client.Problem{
				Status: http.StatusForbidden,
				Code:   "FORM_NOT_OURS",
				Detail: "The form was not made for this session, so nothing was done. Go back, load the " +
					"page again, and repeat it.",
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
		http.Redirect(w, r, to, http.StatusSeeOther)
	})
}

// once returns the idempotency key of a form.
func (v *visit) once() client.Option {
	once := v.r.PostFormValue("once")
	if len(once) < 16 || len(once) > 64 {
		once = rand.Text()
	}
	return client.IdempotencyKey("console-" + once)
}

// answer shows a page, or the error of making it.
func (v *visit) answer(p page, err error) {
	status := max(v.status, http.StatusOK)
	if err != nil {
		if isCode(err, problem.CodeUnauthenticated) {
			v.console.forget(v.w, v.r, forSession)
			v.console.toSignIn(v.w, v.r, "ended")
			return
		}
		view := v.console.trouble(v.r, err)
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

// notices are the messages of a page after an action, by name.
var notices = map[string]string{
	"tested":   "A test was sent. What came back is below.",
	"enabled":  "The endpoint is enabled. What waited is sent now.",
	"disabled": "The endpoint is disabled. Its deliveries wait until it is enabled.",
	"resent":   "The event is queued again.",
	"changed":  "It was changed.",
	"rules": "It was changed. The new rules hold from the next ledger on: a backfill, below, " +
		"matches earlier payments too.",
	"moved": "It was changed. The URL has another host or port, so headers that you did not enter " +
		"again are removed.",
	"deleted":   "It was deleted.",
	"watched":   "The watch was made. It sees payments from the next ledger on.",
	"backfill":  "The backfill was asked for. How far it is stands below.",
	"sent":      "What was pending is sent now.",
	"sent-some": "The first of what was pending is sent now. Send the rest when these have ended.",
	"replayed":  "What failed is queued again, up to the most that one replay takes.",
}

// who returns the name of a session's key or, in the portal, when the session ends.
func (v *visit) who() string {
	switch {
	case v.console.isPortal():
		return "until " + time.Unix(v.session.EndsSec, 0).UTC().Format("2006-01-02 15:04 UTC")
	case v.key.Name != "":
		return v.key.Name
	}
	return v.key.ID
}

// troubleView is a refusal, for people.
type troubleView struct {
	Status        int
	Kind          string // denied, missing, behind, or refused
	Title, Detail string
	Faults        []client.Fault
	Request       string // its id in the log
	Again         string // the address
	Retry         bool   // it may help to ask again
}

// trouble describes an error to a user. It logs errors that are not refusals of the API.
func (x *Console) trouble(r *http.Request, err error) troubleView {
	var p *client.Problem
	if !errors.As(err, &p) {
		x.Log.Error("a page of the console could not be made", "path", r.Pattern, "error", err)
		p = &client.Problem{
			Status: http.StatusInternalServerError,
			Detail: "The server failed. Its log says why.",
		}
	}
	t := troubleView{
		Status: p.Status, Title: p.Title, Detail: p.Detail, Faults: p.Errors, Request: p.RequestID,
		Kind: "refused", Again: r.URL.RequestURI(),
	}
	switch {
	case p.Code == problem.CodeMissingPermission:
		t.Kind, t.Title = "denied", "This key may not do that"
	case p.Status == http.StatusNotFound:
		t.Kind, t.Title = "missing", "Not found"
	case p.Code == problem.CodeHistoryBehind, p.Code == problem.CodeDirectoryBehind:
		t.Kind, t.Title, t.Retry = "behind", "Still catching up", true
	case p.Status == http.StatusServiceUnavailable, p.Status == http.StatusTooManyRequests:
		t.Retry = true
	case t.Title == "":
		t.Title = "That was not done"
	}
	return t
}

func isCode(err error, code string) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Code == code
}

// write writes a page as a whole, or a plain error if it cannot be made.
func (x *Console) write(
	w http.ResponseWriter, r *http.Request, status int, name string, f frame,
) {
	f.Assets = x.names
	var out bytes.Buffer
	if err := x.pages[name].ExecuteTemplate(&out, "frame", f); err != nil {
		x.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, shown(out.String())) // the browser may be gone
	}
}

// kept matches the values that a form posts back, which must not change.
var kept = regexp.MustCompile(`value="[^"]*"|<textarea[^>]*>[^<]*`)

// shown escapes invisible characters, so that text of strangers cannot hide anything or change the
// text around it, for example its direction.
func shown(page string) string {
	var out strings.Builder
	from := 0
	for _, at := range kept.FindAllStringIndex(page, -1) {
		out.WriteString(printable.Text(page[from:at[0]]) + page[at[0]:at[1]])
		from = at[1]
	}
	return out.String() + printable.Text(page[from:])
}

// fail answers when no page can be made.
func (x *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	x.Log.Error("a page of the console could not be made", "path", r.Pattern, "error", err)
	http.Error(w, "The server failed. Its log says why.", http.StatusInternalServerError)
}
