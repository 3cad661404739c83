package source

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

const (
	pollIntervalDefault = time.Second
	backoffMaxDefault   = 15 * time.Second
)

// finalAnswersMin is how many looks in a row must fail with a domain.LedgerError before it is
// returned: a single answer may be a server's mistake.
const finalAnswersMin = 4

// Poll implements waiting: for a ledger that does not exist yet, and for a server that is
// unavailable. It logs each state of the server once. It must be used by one goroutine.
type Poll struct {
	Kind   string // of the source, as a log names it: rpc
	Name   string // for users: the Stellar RPC
	Server string // without secrets

	Passphrase string // of the network whose ledgers they are
	Trust      Trust

	Interval   time.Duration // between looks for the next ledger; 1 s when 0
	BackoffMax time.Duration // longest wait after repeated failures; 15 s when 0
	Log        *slog.Logger  // silent when nil

	chain   chain
	state   string // as last logged
	refused uint32 // the ledger that was last logged as refused
}

// NewPoll fills in defaults.
func NewPoll(p Poll) (*Poll, error) {
	if p.Interval < 0 || p.BackoffMax < 0 {
		return nil, errors.New(p.Kind + ": the poll interval and the longest backoff cannot be negative")
	}
	p.Interval = cmp.Or(p.Interval, pollIntervalDefault)
	p.BackoffMax = cmp.Or(p.BackoffMax, backoffMaxDefault)
	p.Log = cmp.Or(p.Log, slog.New(slog.DiscardHandler))
	return &p, nil
}

// Continue sets which ledger was read last: the next must follow it.
func (p *Poll) Continue(sequence uint32, hash string) { p.chain = chain{sequence, hash} }

// Next polls until there is a page of matching ledgers, or finalAnswersMin polls in a row return a
// permanent error. A poll that returns neither means that the ledger does not exist yet.
func (p *Poll) Next(
	ctx context.Context, sequence uint32, look func() ([]ledger.Raw, error),
) ([]ledger.Raw, error) {
	waits := retry.Policy{First: p.Interval, Last: p.BackoffMax}.Backoff()
	for finals := 0; ; {
		page, err := look()
		if finals++; !IsPermanent(err) {
			finals = 0
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && len(page) > 0:
			p.Report("up "+p.Server, slog.LevelInfo, "ledgers are being read from "+p.Name,
				"ledger", sequence)
			last := page[len(page)-1]
			p.Continue(last.Sequence, last.Hash)
			return page, nil
		case finals == finalAnswersMin:
			return nil, err
		case err != nil:
			p.Report("down", slog.LevelWarn, p.Name+" cannot be used; retrying",
				"ledger", sequence, "err", err)
			err = waits.Wait(ctx, err)
		default:
			waits.Reset()
			err = retry.Sleep(ctx, p.Interval)
		}
		if err != nil {
			return nil, err
		}
	}
}

// Refuse reports a ledger that does not match its hashes. It logs each ledger once.
func (p *Poll) Refuse(why error, sequence uint32) {
	if p.Trust.OnRefused != nil {
		p.Trust.OnRefused()
	}
	if p.refused != sequence {
		p.refused = sequence
		p.Log.Error("a ledger is refused because it does not match its hashes; requesting it again "+
			"from every server until one returns the right one", p.Kind, p.Server,
			"ledger", sequence, "err", why)
	}
}

// Report logs a state of the server when it is not the one logged last.
func (p *Poll) Report(state string, level slog.Level, message string, args ...any) {
	if p.state == state {
		return
	}
	p.state = state
	p.Log.Log(context.Background(), level, message, append(args, p.Kind, p.Server)...)
}
