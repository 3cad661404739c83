package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

// explanation is an event in words. Quoted is text by others, kept separate.
type explanation struct {
	Summary  string   `json:"summary"`
	Payment  string   `json:"payment,omitempty"`
	Attempts []string `json:"attempts"`
	Next     string   `json:"next"`
	Quoted   quoted   `json:"quoted"`
}

type quoted struct {
	Memo    string   `json:"memo,omitempty"`
	Answers []string `json:"answers,omitempty"` // of the receiver, to each attempt
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
	var told struct {
		Payment struct {
			From, To, Amount, Memo, TxHash string
			Ledger                         uint32
			Asset                          client.Asset
		}
	}
	if json.Unmarshal(e.Data, &told) == nil && told.Payment.Amount != "" {
		p := told.Payment
		x.Payment = fmt.Sprintf("%s %s from %s to %s in ledger %d, transaction %s", p.Amount,
			p.Asset.Code, p.From, p.To, p.Ledger, p.TxHash)
		x.Quoted.Memo = p.Memo
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
		text += "it is queued, and no attempt of this run was made yet"
	case domain.StateWaiting:
		text += "its last attempt failed, and it waits for the next"
	case domain.StateDelivered:
		text += "the receiver has taken it (it answered 2xx)"
	case domain.StateFailed:
		text += "every attempt failed, and none is left"
	case domain.StateCancelled:
		text += "it was cancelled: its endpoint was deleted, or it was a test that nobody waits for"
	}
	if e.HistoryBehind {
		text += ". The history is being rebuilt, so this may be an earlier state: ask again later"
	}
	return text
}

// attemptInWords has no words of the receiver.
func attemptInWords(a client.Attempt) string {
	text := fmt.Sprintf("attempt %d of run %d at %s, after %d ms: ", a.Number, a.Run,
		a.SentAt.Format(time.RFC3339), a.DurationMs)
	r := domain.AttemptResult{}
	if a.StatusCode != nil {
		r.StatusCode = *a.StatusCode
	}
	if a.Error != nil {
		r.Error = domain.AttemptError(*a.Error)
	}
	if r.Succeeded() {
		return text + "taken, " + r.Answer()
	}
	return text + "failed, " + r.Answer()
}

// next says what happens automatically, and what a user can do; a tool does none of it.
func next(e client.Event) string {
	var text []string
	if e.Delivery.Held {
		text = append(text, "its endpoint is disabled, and it waits until somebody enables it: "+
			"lumenhook endpoints enable "+e.Delivery.EndpointID)
	} else if at := e.Delivery.NextAttemptAt; at != nil {
		text = append(text, "the next attempt is made at "+at.Format(time.RFC3339))
	}
	switch domain.DeliveryState(e.Delivery.State) {
	case domain.StateFailed, domain.StateWaiting:
		text = append(text, "once the receiver is corrected (lumenhook endpoints test "+
			e.Delivery.EndpointID+"), it can be sent at once: lumenhook events resend "+e.ID)
	case domain.StateCancelled:
		text = append(text, "if its watch has another endpoint now, it can be handed to that: "+
			"lumenhook events resend "+e.ID)
	case domain.StateQueued, domain.StateDelivered:
	}
	if len(text) == 0 {
		return "nothing is left to do"
	}
	return strings.Join(text, "; ")
}
