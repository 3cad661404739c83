package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/apicli"
)

// explanation describes an event. Quoted contains the text written by others.
type explanation struct {
	Summary  string   `json:"summary"`
	Payment  string   `json:"payment,omitempty"`
	Attempts []string `json:"attempts"`
	Next     string   `json:"next"`
	Quoted   quoted   `json:"quoted"`
}

type quoted struct {
	Memo    string   `json:"memo,omitempty"`
	Answers []string `json:"answers,omitempty"` // the receiver's response to each attempt
}

func (s *server) explainEvent(ctx context.Context, in byID) (*answer, error) {
	e, err := s.API.GetEvent(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	x := explanation{
		Summary:  summary(e),
		Attempts: make([]string, 0, len(e.Attempts)),
		Next:     next(e),
	}
	if p := e.PaymentData().Payment; p.Amount != "" {
		x.Payment = fmt.Sprintf("%s %s from %s to %s in ledger %d, transaction %s", p.Amount,
			p.Asset.Code, p.From, p.To, p.Ledger, p.TxHash)
		if p.Memo != nil {
			x.Quoted.Memo = *p.Memo
		}
	}
	for _, a := range e.Attempts {
		x.Attempts = append(x.Attempts, attemptInWords(a))
		x.Quoted.Answers = append(x.Quoted.Answers, a.ResponseBody)
	}
	return writtenByOthers(x, "quoted.memo", "quoted.answers"), nil
}

func summary(e client.Event) string {
	text := fmt.Sprintf("%s is a %s of %s for %s: ", e.ID, e.Type, e.CreatedAt.Format(time.RFC3339),
		e.Delivery.EndpointID)
	switch domain.DeliveryState(e.Delivery.State) {
	case domain.StateQueued:
		text += "it is queued and has had no attempt in this run yet"
	case domain.StateWaiting:
		text += "its last attempt failed and it is waiting for the next one"
	case domain.StateDelivered:
		text += "the receiver accepted it (with a 2xx status)"
	case domain.StateFailed:
		text += "every attempt failed and none is left"
	case domain.StateCancelled:
		text += "it was cancelled: its endpoint was deleted, or it was an abandoned test"
	}
	if e.HistoryBehind {
		text += ". The history is being rebuilt, so this may be an earlier state; try again later"
	}
	return text
}

// attemptInWords describes an attempt without quoting the receiver.
func attemptInWords(a client.Attempt) string {
	text := fmt.Sprintf("attempt %d of run %d at %s, after %d ms: ", a.Number, a.Run,
		a.SentAt.Format(time.RFC3339), a.DurationMs)
	r := apicli.ResultOf(a.StatusCode, a.Error, nil)
	if r.Succeeded() {
		return text + "accepted, " + r.Answer()
	}
	return text + "failed, " + r.Answer()
}

// next describes what happens automatically, and what a user can do. No tool does any of it.
func next(e client.Event) string {
	var text []string
	if e.Delivery.Held {
		text = append(text, "its endpoint is disabled, so it waits until you enable the endpoint: "+
			"lumenhook endpoints enable "+e.Delivery.EndpointID)
	} else if at := e.Delivery.NextAttemptAt; at != nil {
		text = append(text, "the next attempt is at "+at.Format(time.RFC3339))
	}
	switch domain.DeliveryState(e.Delivery.State) {
	case domain.StateFailed, domain.StateWaiting:
		text = append(text, "after you fix the receiver (lumenhook endpoints test "+
			e.Delivery.EndpointID+"), you can send it immediately: lumenhook events resend "+e.ID)
	case domain.StateCancelled:
		text = append(text, "if its watch has another endpoint now, you can send it there: "+
			"lumenhook events resend "+e.ID)
	case domain.StateQueued, domain.StateDelivered:
	}
	if len(text) == 0 {
		return "there is nothing left to do"
	}
	return strings.Join(text, "; ")
}
