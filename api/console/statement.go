package console

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

// none is an amount of nothing, as the API writes it.
const none = "0.0000000"

type statementView struct {
	client.Statement
	form
	Kept     *moment
	Rows     []moveRow
	Gaps     []client.BalanceStatement // balances with unexplained changes
	First    bool
	Next     string
	Download string
}

type moveRow struct {
	client.BalanceMove
	Closed   *moment
	What     string
	Gap      bool
	Payments []movePayment
}

type movePayment struct {
	client.StatementPayment
	Why []string
}

var moveWords = map[string]string{
	"payment_in": "Paid in", "outgoing": "Paid out", "create": "Account created",
	"merge": "Account merged", "fee": "Fee", "trade": "Trade", "claim": "Claimable balance",
	"pool": "Liquidity pool", "clawback": "Clawback", "contract": "Contract call", "other": "Other",
}

func (x *Console) showStatement(v *visit) (page, error) {
	wallet, q := v.r.PathValue("address"), v.r.URL.Query()
	view := statementView{form: form{Values: q}, First: !q.Has("cursor")}
	view.WalletAddress = wallet
	shown := func() page { return page{"statement", "Statement", "watches", &view} }
	var filter client.StatementFilter
	if view.read(&filter); view.Wrong() {
		return *v.again(shown()), nil
	}
	found, err := v.api.GetStatement(v.r.Context(), wallet, filter,
		client.Page{Limit: listPage, Cursor: q.Get("cursor")})
	if err != nil {
		if err := view.refused(err, pointersOf(filter)); err != nil {
			return page{}, err
		}
		return *v.again(shown()), nil
	}
	view.Statement, view.Kept = found, x.moment(found.KeptSince)
	view.Next = v.nextPage(found.NextCursor)
	q.Del("cursor")
	view.Download = x.at + "/wallets/" + url.PathEscape(wallet) + "/statement.csv?" + q.Encode()
	for _, b := range found.Balances {
		if b.Unexplained != none {
			view.Gaps = append(view.Gaps, b)
		}
	}
	for _, m := range found.Data {
		view.Rows = append(view.Rows, x.moveRow(m))
	}
	return shown(), nil
}

func (x *Console) moveRow(m client.BalanceMove) moveRow {
	row := moveRow{
		BalanceMove: m,
		Closed:      x.moment(&m.LedgerClosedAt),
		What:        worded(moveWords, m.Kind),
		Gap:         m.Unexplained != none,
	}
	for _, p := range m.Payments {
		one := movePayment{StatementPayment: p}
		for _, n := range p.NotTaken {
			for _, reason := range n.Reasons {
				if meaning, known := silenceWords[reason]; known {
					reason = meaning
				}
				one.Why = append(one.Why, worded(reasonWords, reason))
			}
		}
		row.Payments = append(row.Payments, one)
	}
	return row
}

var nextLink = regexp.MustCompile(`^<(/v1/[^>]+)>; rel="next"$`)

// downloadStatement answers with a statement as CSV: the pages of the API, one after another, with
// one line of names. It writes each page before it reads the next one. If it cannot
// read one, it cuts the connection, so that no browser takes the part for the whole.
func (x *Console) downloadStatement(v *visit) {
	q := v.r.URL.Query()
	f := form{Values: q}
	q.Set("format", "csv")
	q.Set("limit", "250")
	for _, name := range []string{"from", "to"} {
		if at, err := readTime(f.text(name)); err == nil {
			q.Set(name, at.Format(time.RFC3339))
		}
		if f.text(name) == "" {
			q.Del(name)
		}
	}
	if f.text("asset") == "" {
		q.Del("asset")
	}
	at := "/v1/wallets/" + url.PathEscape(v.r.PathValue("address")) + "/statement?" + q.Encode()
	for first := true; at != ""; first = false {
		answer, next, ok := v.csvPage(at)
		switch {
		case !ok && first:
			v.answer(page{}, errNoStatement)
			return
		case !ok:
			panic(http.ErrAbortHandler)
		case first:
			v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			v.w.Header().Set("Content-Disposition", `attachment; filename="statement.csv"`)
		default:
			_, answer, _ = bytes.Cut(answer, []byte("\n"))
		}
		hurry(v.w, downloadMax)
		// #nosec G705 -- CSV as a file to keep, with nosniff: no browser shows it as a page
		if _, err := v.w.Write(answer); err != nil {
			return // the browser is gone
		}
		at = next
	}
}

var errNoStatement = &client.Problem{
	Status: http.StatusUnprocessableEntity,
	Title:  "There is no such statement",
	Detail: "The API refuses it. The page of the statement says why.",
}

// csvPage reads a page from the API, and returns the path of the next one.
func (v *visit) csvPage(at string) (body []byte, next string, ok bool) {
	// #nosec G704 -- no network is asked: the API's handler within the process answers it
	r, err := http.NewRequestWithContext(v.r.Context(), http.MethodGet, "http://console"+at, nil)
	if err != nil {
		return nil, "", false
	}
	r.Header.Set("Authorization", "Bearer "+v.session.Key)
	response, err := v.backend.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, "", false
	}
	if link := nextLink.FindStringSubmatch(response.Header.Get("Link")); link != nil {
		next = link[1]
	}
	return v.backend.last, next, true
}
