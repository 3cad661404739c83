package writer

import (
	"bytes"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

type paid struct {
	paymentID       string
	txHash          string
	from            string
	memo            string // as in the event
	closedAtSeconds int64
	assetCode       string
	assetIssuer     string
	amountStroops   int64
}

// readPaid extracts fields from an envelope in the order in which package domain writes them. User
// text (memo, label) cannot be mistaken for a field, because its quotes are escaped.
func readPaid(body []byte) (p paid) {
	id, rest := textAfter(body, `"payment":{"id":"`)
	if id == "" {
		return p
	}
	p.paymentID = id
	p.txHash, rest = textAfter(rest, `"txHash":"`)
	closed, rest := textAfter(rest, `"ledgerClosedAt":"`)
	if at, err := time.Parse(time.RFC3339, closed); err == nil {
		p.closedAtSeconds = at.Unix()
	}
	p.from, rest = textAfter(rest, `"from":"`)
	p.memo = memoIn(rest)
	p.assetCode, rest = textAfter(rest, `"asset":{"code":"`)
	// The issuer follows directly, or is null.
	p.assetIssuer, _ = textAfter(rest[:min(len(rest), 96)], `,"issuer":"`)
	stroops, _ := textAfter(rest, `"amountStroops":"`)
	p.amountStroops, _ = strconv.ParseInt(stroops, 10, 64)
	return p
}

// memoIn returns the memo, unescaped, or "" if there is none. A memo may be any text.
func memoIn(rest []byte) string {
	_, quoted, found := bytes.Cut(rest, []byte(`,"memo":"`))
	if !found {
		return ""
	}
	end := 0
	for ; end < len(quoted) && quoted[end] != '"'; end++ {
		if quoted[end] == '\\' {
			end++
		}
	}
	text := quoted[:min(end, len(quoted))]
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	text = append(append([]byte{'"'}, text...), '"')
	if text, err := jsontext.AppendUnquote(nil, text); err == nil {
		return string(text)
	}
	return ""
}

// textAfter returns the text between mark and the next quote, and the rest after it. If there is no
// mark, it returns "" and body.
func textAfter(body []byte, mark string) (text string, rest []byte) {
	_, after, found := bytes.Cut(body, []byte(mark))
	end := bytes.IndexByte(after, '"')
	if !found || end < 0 {
		return "", body
	}
	return string(after[:end]), after[end:]
}
