package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/receiver"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// printer tells a person what happens, one line each.
type printer struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, time.Now().Format("15:04:05.000")+"  "+format+"\n", args...)
}

// ledger tells of the payments to watched wallets in a ledger.
func (p *printer) ledger(l follower.LedgerSummary) {
	for _, pay := range l.Observed {
		memo := ""
		if pay.Memo.Type != domain.MemoNone {
			memo = fmt.Sprintf(" memo %s %q", pay.Memo.Type, pay.Memo.String())
		}
		p.line("observed   ledger %d: %s %s from %s to %s%s", pay.Ledger, trimAmount(pay.AmountStroops), pay.Asset.Code, short(pay.From), short(pay.To), memo)
	}
	for _, m := range l.Matches {
		p.line("matched    %s: %s by watch %s", m.EventID, m.Verification.Outcome, m.Watch.ID)
	}
}

// fact tells what a committed fact means for a delivery.
func (p *printer) fact(f domain.Fact) {
	switch b := f.Body.(type) {
	case domain.DeliveryCreated:
		p.line("queued     %s for %s", b.Event.ID, b.EndpointID)
	case domain.DeliveryRequeued:
		p.line("requeued   %s by %s, run %d", b.EventID, b.Reason, b.Run)
	case domain.DeliveryCancelled:
		p.line("cancelled  %s: its endpoint does not exist", b.EventID)
	case domain.EndpointDisabled:
		p.line("DISABLED   %s: %s", f.Aggregate, b.Reason)
	case domain.EndpointEnabled:
		p.line("enabled    %s: what waited is sent", f.Aggregate)
	case domain.EndpointDeleted:
		p.line("deleted    %s", f.Aggregate)
	case domain.AttemptMade:
		p.attempt(b)
	}
}

func (p *printer) attempt(a domain.AttemptMade) {
	got := fmt.Sprintf("HTTP %d", a.Result.StatusCode)
	if a.Result.StatusCode == 0 {
		got = "no answer"
	}
	if a.Result.Error != "" {
		got += " " + string(a.Result.Error)
	}
	switch a.State {
	case domain.StateDelivered:
		p.line("delivered  %s: attempt %d, %s in %d ms", a.EventID, a.Number, got, a.Result.DurationMillis)
	case domain.StateWaiting:
		p.line("failed     %s: attempt %d, %s; again at %s", a.EventID, a.Number, got, domain.FormatMillis(a.NextAttemptAtMillis))
	default:
		p.line("FAILED     %s: attempt %d was the last, %s", a.EventID, a.Number, got)
	}
}

// webhook shows what the demo receiver made of a request.
func (p *printer) webhook(w receiver.Webhook) { p.line("%s", webhookText(w)) }

func short(address string) string {
	if len(address) < 12 {
		return address
	}
	return address[:5] + "…" + address[len(address)-4:]
}

func trimAmount(stroops int64) string {
	return strings.TrimSuffix(strings.TrimRight(domain.FormatAmount(stroops), "0"), ".")
}
