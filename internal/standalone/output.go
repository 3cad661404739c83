package standalone

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/receiver"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

// narrator prints events, one line each with the time of day, or logs them at level info.
type narrator struct {
	mu  sync.Mutex
	out io.Writer
	log *slog.Logger // nil: lines go to out
}

// Say writes a line. It may be called from any goroutine.
func (p *narrator) Say(format string, args ...any) {
	if p.log != nil {
		p.log.Info(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, time.Now().Format("15:04:05.000")+"  "+format+"\n", args...)
}

// ledger prints the payments to watched wallets in a ledger.
func (p *narrator) ledger(l follower.LedgerSummary) {
	for _, pay := range l.Observed {
		memo := ""
		if pay.Memo.Type != domain.MemoNone && p.log == nil {
			memo = fmt.Sprintf(" memo %s %q", pay.Memo.Type, pay.Memo.String())
		}
		p.Say("observed   ledger %d: %s %s from %s to %s%s", pay.Ledger, trimAmount(pay.AmountStroops),
			pay.Asset.Code, short(pay.From), short(pay.To), memo)
	}
	for _, m := range l.Matches {
		p.Say("matched    %s: %s by watch %s", m.EventID, m.Verification.Outcome, m.Watch.ID)
	}
}

// cancelWords say why a delivery was cancelled.
var cancelWords = map[domain.CancelReason]string{
	domain.CancelMissing:  "there is no such endpoint",
	domain.CancelDeleted:  "its endpoint was deleted",
	domain.CancelDisabled: "its endpoint was disabled before the test was sent",
	"":                    "its endpoint takes nothing more",
}

// fact prints the meaning of a committed fact for a delivery.
func (p *narrator) fact(f domain.Fact) {
	switch b := f.Body.(type) {
	case domain.DeliveryCreated:
		p.Say("queued     %s for %s", b.Event.ID, b.EndpointID)
	case domain.DeliveryRequeued:
		p.Say("requeued   %s by %s, run %d", b.EventID, b.Reason, b.Run)
	case domain.DeliveryCancelled:
		p.Say("cancelled  %s: %s", b.EventID, cancelWords[b.Reason])
	case domain.EndpointDisabled:
		p.Say("DISABLED   %s: %s", f.Aggregate, b.Reason)
	case domain.EndpointEnabled:
		p.Say("enabled    %s: what waited is sent", f.Aggregate)
	case domain.EndpointDeleted:
		p.Say("deleted    %s", f.Aggregate)
	case domain.AttemptMade:
		p.attempt(b)
	default: // not interesting to watch
	}
}

func (p *narrator) attempt(a domain.AttemptMade) {
	got := a.Result.Answer()
	switch a.State {
	case domain.StateDelivered:
		p.Say("delivered  %s: attempt %d, %s in %d ms",
			a.EventID, a.Number, got, a.Result.DurationMillis)
	case domain.StateWaiting:
		p.Say("failed     %s: attempt %d, %s; again at %s",
			a.EventID, a.Number, got, domain.FormatMillis(a.NextAttemptAtMillis))
	case domain.StateCancelled: // while it was in flight
		p.Say("cancelled  %s: attempt %d, %s; its endpoint takes nothing more", a.EventID, a.Number, got)
	default:
		p.Say("FAILED     %s: attempt %d was the last, %s", a.EventID, a.Number, got)
	}
}

// webhook prints a request to the demo receiver.
func (p *narrator) webhook(w receiver.Webhook) { p.Say("%s", w.Text()) }

func short(address string) string {
	if len(address) < 12 {
		return address
	}
	return address[:5] + "…" + address[len(address)-4:]
}

func trimAmount(stroops int64) string {
	return strings.TrimSuffix(strings.TrimRight(domain.FormatAmount(stroops), "0"), ".")
}

// mail prints a mail that was written to a file.
func (p *narrator) mail(m mailer.Mail, path string) {
	if p.log != nil {
		p.Say("mail in %s", path)
		return
	}
	text := strings.ReplaceAll(strings.TrimSpace(m.Text), "\n", "\n  ")
	p.Say("mail       to %s, in %s\n\n  Subject: %s\n\n  %s", m.To, path, m.Subject, text)
}

const (
	// queueLines bounds the lines that are not printed yet.
	queueLines = 4096
	// closeMax bounds the wait for a blocked terminal.
	closeMax = 2 * time.Second
)

// lineQueue is a writer of lines that never blocks: a terminal that was paused by Ctrl-S, or a
// pager, must not delay deliveries. If too many lines wait, some are dropped, and that is
// reported.
type lineQueue struct {
	to    io.Writer
	tell  func(to io.Writer, n int) // writes that n lines were left out
	lines chan []byte
	shown chan struct{} // closed when all is shown after Close

	mu      sync.Mutex
	closed  bool
	leftOut int
}

// tellLeftOut reports dropped lines to a person.
func tellLeftOut(to io.Writer, n int) {
	fmt.Fprintf(to, "… %d lines were left out: they came faster than they could be shown\n", n)
}

// logLeftOut reports dropped lines in a JSON log, whatever its level is: they may have been errors.
func logLeftOut(to io.Writer, n int) {
	slog.New(slog.NewJSONHandler(to, nil)).Warn(
		"lines were left out: they came faster than they could be written", "lines", n)
}

// newLineQueue starts printing written lines. The caller closes it.
func newLineQueue(to io.Writer, tell func(to io.Writer, n int)) *lineQueue {
	t := &lineQueue{
		to:    to,
		tell:  tell,
		lines: make(chan []byte, queueLines),
		shown: make(chan struct{}),
	}
	go t.show()
	return t
}

// Write queues a line, or drops it.
func (t *lineQueue) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, io.ErrClosedPipe
	}
	select {
	case t.lines <- append([]byte(nil), line...):
	default:
		t.leftOut++
	}
	return len(line), nil
}

func (t *lineQueue) show() {
	defer close(t.shown)
	for line := range t.lines {
		_, _ = t.to.Write(line) // an error cannot be reported
		t.mu.Lock()
		n := t.leftOut
		if len(t.lines) > 0 {
			n = 0 // it is reported where the lines are missing: after those that wait
		} else {
			t.leftOut = 0
		}
		t.mu.Unlock()
		if n > 0 {
			t.tell(t.to, n)
		}
	}
}

// Close prints the queued lines, unless the terminal does not accept it in time.
func (t *lineQueue) Close() {
	t.mu.Lock()
	t.closed = true
	close(t.lines)
	t.mu.Unlock()
	select {
	case <-t.shown:
	case <-time.After(closeMax):
	}
}
