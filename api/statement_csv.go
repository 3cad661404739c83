package api

import (
	"bytes"
	"encoding/csv"
	"net/url"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/domain"
)

// statementColumns are the columns of a statement in CSV (RFC 4180).
var statementColumns = []string{
	"ledger", "ledgerClosedAt", "txHash", "operation", "asset", "kind", "before", "change", "after",
	"unexplained", "payments", "eventIds", "notTaken",
}

// statementCSV writes the moves of the page. Where it goes on is in the header Link (RFC 8288).
func statementCSV(v client.Statement, r *request, q *decode.Query) (reply, error) {
	var body bytes.Buffer
	w := csv.NewWriter(&body)
	_ = w.Write(statementColumns) // into memory
	for _, m := range v.Data {
		operation := ""
		if m.Operation != nil {
			operation = strconv.Itoa(*m.Operation)
		}
		var payments, events, notTaken []string
		for _, p := range m.Payments {
			payments = append(payments, p.ID)
			events = append(events, p.EventIDs...)
			for _, n := range p.NotTaken {
				notTaken = append(notTaken, n.WatchID+"="+strings.Join(n.Reasons, "+"))
			}
		}
		_ = w.Write([]string{
			strconv.FormatUint(uint64(m.Ledger), 10),
			domain.FormatMillis(m.LedgerClosedAt.UnixMilli()), m.TxHash, operation, m.Asset, m.Kind,
			m.Before, m.Change, m.After, m.Unexplained, strings.Join(payments, " "),
			strings.Join(events, " "), strings.Join(notTaken, " "),
		})
	}
	w.Flush()
	answer := reply{contentType: "text/csv; charset=utf-8", body: body.Bytes()}
	if v.NextCursor != nil {
		next := url.Values{"cursor": {*v.NextCursor}}
		for _, name := range q.Names() {
			if name != "cursor" {
				next.Set(name, q.Get(name))
			}
		}
		answer.link = "</v1/wallets/" + r.subjectID + "/statement?" + next.Encode() + `>; rel="next"`
	}
	return answer, w.Error()
}
