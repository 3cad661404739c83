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

// Source is a source of ledgers. It is not safe for concurrent use.
type Source interface {
	// Check checks once that the source serves the network; see domain.ErrWrongNetwork.
	Check(ctx context.Context) error
	// Latest queries the sequence of the newest ledger once.
	Latest(ctx context.Context) (uint32, error)
	// Continue sets the last ledger read, which the next one must follow. An empty hash accepts any.
	Continue(sequence uint32, hash string)
	// Next waits for a ledger, and returns it and the available ledgers after it. It fails only if
	// waiting does not help (see IsPermanent).
	Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error)
}

// Looker is a source that can be queried without waiting. It is not safe for concurrent use.
type Looker interface {
	Source
	// Look requests a ledger and the available ledgers after it once. If it returns neither ledgers
	// nor an error, the ledger doesn't exist yet. Call Continue before the next Look.
	Look(ctx context.Context, sequence uint32) ([]ledger.Raw, error)
}

// Report is a source's report about itself. Fields are zero if they are not reported.
type Report struct {
	Oldest, Latest uint32    // ledgers that the source has
	ClosedAt       time.Time // close time of the latest ledger
}

// Reporter is a source that can report which ledgers it has.
type Reporter interface {
	Source
	Report(ctx context.Context) (Report, error)
}

// IsPermanent reports whether waiting does not help against a source's error.
func IsPermanent(err error) bool {
	_, permanent := errors.AsType[domain.LedgerError](err)
	return permanent
}

// Watched is a source that reports the states of its sources, even concurrently.
type Watched interface {
	Source
	Standings() domain.SourceStatuses
}

// Alone is a single source with a name for its reported state.
type Alone struct {
	Source
	name   string
	newest atomic.Uint32
}

// NewAlone returns a source with the given name.
func NewAlone(name string, s Source) *Alone { return &Alone{Source: s, name: name} }

// Next calls the source's Next.
func (a *Alone) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	page, err := a.Source.Next(ctx, sequence)
	if len(page) > 0 {
		a.newest.Store(page[len(page)-1].Sequence)
	}
	return page, err
}

// Standings returns the state of the source.
func (a *Alone) Standings() domain.SourceStatuses {
	newest := a.newest.Load()
	return domain.SourceStatuses{
		Need:    1,
		Ledger:  newest,
		Sources: []domain.SourceStatus{{Name: a.name, State: domain.SourceAlone, Ledger: newest}},
	}
}

// ParseAddress parses a server's URL.
func ParseAddress(address, kind, name string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: the %s URL must be like https://host:port/path", kind, name)
	}
	return u, nil
}

// WithoutAddress removes the URL, which may contain a provider's key, from a net/http error.
func WithoutAddress(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
