package api

import (
	"context"
	"errors"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// reasonEndpointDeleted is why a watch reports nothing until it gets another endpoint.
const reasonEndpointDeleted = "ENDPOINT_DELETED"

// checkWatch returns what the watch would do with a payment made now. It applies the same rules as
// the follower.
func (a *API) checkWatch(_ context.Context, r *request) (reply, error) {
	payment, err := readImagined(r)
	if err != nil {
		return reply{}, err
	}
	payment.ClosedAtMillis = a.Now().UnixMilli()
	match, reported := domain.MatchPayment(r.watch, payment)
	status, err := a.statusOf(r.watch)
	if err != nil {
		return reply{}, err
	}
	view := client.WatchCheck{
		Verification: client.Verification{
			Outcome: string(match.Verification.Outcome),
			Reasons: texts(match.Verification.Reasons),
		},
		NotReported: []string{},
	}
	switch {
	case status == watchEndpointDeleted:
		view.NotReported = append(view.NotReported, reasonEndpointDeleted)
	case reported:
		view.EventType = nullable(match.Type)
	default:
		view.NotReported = outOfTime(r.watch, payment)
		if len(view.NotReported) == 0 {
			view.NotReported = []string{reasonNotReported}
		}
	}
	return reply{view: view}, nil
}

func readImagined(r *request) (domain.Payment, error) {
	q := decode.NewQuery(r.http.URL, "amount", "asset", "memo", "memoType", "sender")
	p := domain.Payment{
		To:    r.watch.WalletAddress,
		From:  addressParameter(q, "sender", senderFault),
		Asset: assetParameter(q, "asset"),
	}
	stroops := amountParameter(q, "amount")
	switch {
	case stroops != nil && *stroops > 0:
		p.AmountStroops = *stroops
	case stroops != nil:
		q.Fault("amount", problem.FaultInvalidAmount, errAmountZero.Error())
	case q.Get("amount") == "":
		q.Fault("amount", problem.FaultRequired, "is required: how much is paid, such as 12.5")
	}
	if q.Get("asset") == "" {
		q.Fault("asset", problem.FaultRequired, "is required: XLM, or CODE:ISSUER")
	}
	if p.From != "" && p.IsSelfPayment() {
		q.Fault("sender", problem.FaultInvalidValue,
			"must be another than the watched wallet: a payment to oneself is no income")
	}
	p.Memo = readImaginedMemo(q)
	return p, q.Err()
}

func readImaginedMemo(q *decode.Query) domain.Memo {
	memoType := decode.OneOf(q, "memoType", domain.MemoText, domain.MemoID, domain.MemoHash)
	text := q.Text("memo")
	switch {
	case q.Get("memo") == "" && q.Get("memoType") == "":
		return domain.Memo{}
	case q.Get("memo") == "" || q.Get("memoType") == "":
		q.Fault("memoType", problem.FaultRequired,
			"memo and memoType belong together: give both, or neither")
		return domain.Memo{}
	case text == "" || memoType == "":
		return domain.Memo{} // the faults were added above
	}
	memo, err := domain.ParseMemo(memoType, text)
	if err != nil && !errors.Is(err, domain.ErrMemoType) { // OneOf has added the fault
		q.Fault("memo", problem.FaultInvalidMemo, err.Error())
	}
	return memo
}
