package console

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
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
			one.Why = append(one.Why, client.ReasonDetails(n.Reasons)...)
		}
		row.Payments = append(row.Payments, one)
	}
	return row
}

// downloadStatement answers with a statement as CSV, with one line of names. It writes each page of
// the API before it reads the next one. If it cannot read a later page, or the download takes more
// than downloadMax, it cuts the connection, so that the browser reports an incomplete download.
func (x *Console) downloadStatement(v *visit) {
	f := form{Values: v.r.URL.Query()}
	var filter client.StatementFilter
	f.read(&filter)
	if f.Wrong() {
		v.answer(x.showStatement(v)) // it marks the invalid fields
		return
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), downloadMax)
	defer cancel()
	end, _ := ctx.Deadline()
	for at := (client.Page{Limit: 250}); ; {
		found, err := v.api.GetStatement(ctx, v.r.PathValue("address"), filter, at)
		first := at.Cursor == ""
		switch {
		case first && err != nil:
			v.answer(page{}, err)
			return
		case err != nil:
			panic(http.ErrAbortHandler)
		}
		var rows bytes.Buffer
		_ = found.WriteCSV(&rows) // into memory
		if first {
			v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			v.w.Header().Set("Content-Disposition", `attachment; filename="statement.csv"`)
		} else {
			_, _ = rows.ReadString('\n') // the names
		}
		closeSlowReader(v.w, min(downloadPageMax, time.Until(end)))
		if _, err := rows.WriteTo(v.w); err != nil || found.NextCursor == nil {
			return
		}
		at.Cursor = *found.NextCursor
	}
}
