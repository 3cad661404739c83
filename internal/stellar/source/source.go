package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// Source is where ledgers come from. The packages below this one implement it. It is used by one
// goroutine at a time.
type Source interface {
	// Check asks once whether the source serves the network; if it serves another,
	// the error is a domain.ErrWrongNetwork.
	Check(ctx context.Context) error
	// Latest asks once for the sequence of the newest ledger.
	Latest(ctx context.Context) (uint32, error)
	// Continue sets which ledger was read last: the next must contain its hash as its previous one.
	// An empty hash accepts any.
	Continue(sequence uint32, hash string)
	// Next waits for a ledger and returns it and the available ones after it. It fails only where
	// waiting does not help (see IsPermanent).
	Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error)
}

// Looker is a source that can be asked without being waited for, as one of several is
// (package quorum). It is used by one goroutine at a time.
type Looker interface {
	Source
	// Look requests a ledger and the available ones after it, once. No page and no error mean that
	// the ledger does not exist yet. It does not set which ledger was read: Continue does, before
	// the next look.
	Look(ctx context.Context, sequence uint32) ([]ledger.Raw, error)
}

// Report is a source's own report. Unreported fields are zero.
type Report struct {
	Oldest, Latest uint32    // ledgers that it has
	ClosedAt       time.Time // the latest
}

// Reporter is a source that reports which ledgers it has.
type Reporter interface {
	Source
	// Report asks once.
	Report(ctx context.Context) (Report, error)
}

// IsPermanent reports whether a source's error is one that waiting does not help against.
func IsPermanent(err error) bool {
	_, permanent := errors.AsType[domain.LedgerError](err)
	return permanent
}

// Watched is a source that reports the state of its own sources, to any goroutine.
type Watched interface {
	Source
	Standings() domain.SourceStandings
}

// Alone is a single source. Its methods are the source's own.
type Alone struct {
	Source
	name   string
	newest atomic.Uint32
}

// NewAlone returns a source that is read alone, with a name for reports.
func NewAlone(name string, s Source) *Alone { return &Alone{Source: s, name: name} }

// Next is the source's Next.
func (a *Alone) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	page, err := a.Source.Next(ctx, sequence)
	if len(page) > 0 {
		a.newest.Store(page[len(page)-1].Sequence)
	}
	return page, err
}

// Standings returns the ledger that it returned last.
func (a *Alone) Standings() domain.SourceStandings {
	newest := a.newest.Load()
	return domain.SourceStandings{
		Need:    1,
		Ledger:  newest,
		Sources: []domain.SourceStanding{{Name: a.name, State: domain.SourceAlone, Ledger: newest}},
	}
}

// ParseAddress reads the URL of a server.
func ParseAddress(address, kind, name string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: the %s URL must be like https://host:port/path", kind, name)
	}
	return u, nil
}

// WithoutAddress drops the URL that net/http puts into its errors: it may hold a
// provider's key.
func WithoutAddress(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
