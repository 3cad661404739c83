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

// finalAnswersMin is the number of polls in a row that must return a domain.LedgerError before Next
// returns it. A single one may be a server's mistake.
const finalAnswersMin = 4

// Poll waits for ledgers that don't exist yet and for servers that are unavailable. It logs each
// change of the server's state once. It is not safe for concurrent use.
type Poll struct {
	Kind   string // kind of source for logs, such as "rpc"
	Name   string // name for users, such as "the Stellar RPC"
	Server string // address without secrets

	Passphrase string // of the network
	Trust      Trust

	Interval   time.Duration // between polls for the next ledger; default: 1 s
	BackoffMax time.Duration // longest wait after repeated failures; default: 15 s
	Log        *slog.Logger  // nil: no logs

	chain   chain
	state   string // last logged state
	refused uint32 // ledger that was last logged as refused
}

// NewPoll returns a Poll with defaults filled in.
func NewPoll(p Poll) (*Poll, error) {
	if p.Interval < 0 || p.BackoffMax < 0 {
		return nil, errors.New(p.Kind + ": the poll interval and the longest backoff cannot be negative")
	}
	p.Interval = cmp.Or(p.Interval, pollIntervalDefault)
	p.BackoffMax = cmp.Or(p.BackoffMax, backoffMaxDefault)
	p.Log = cmp.Or(p.Log, slog.New(slog.DiscardHandler))
	return &p, nil
}

// Continue sets the last ledger read, which the next one must follow.
func (p *Poll) Continue(sequence uint32, hash string) { p.chain = chain{sequence, hash} }

// Next polls until there is a page of valid ledgers, or finalAnswersMin polls in a row have
// returned a permanent error. If look returns neither, the ledger doesn't exist yet.
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

// Refuse reports a ledger that doesn't match its hashes. It is logged once per ledger.
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

// Report logs a state of the server unless it is the last logged one.
func (p *Poll) Report(state string, level slog.Level, message string, args ...any) {
	if p.state == state {
		return
	}
	p.state = state
	p.Log.Log(context.Background(), level, message, append(args, p.Kind, p.Server)...)
}
