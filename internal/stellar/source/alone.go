package source

import (
	"context"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// Watched is a source that says how those stand that it reads from, to any goroutine.
type Watched interface {
	Source
	Standings() domain.SourceStandings
}

// Alone is a source with no other beside it. Its methods are the source's own.
type Alone struct {
	Source
	name   string
	newest atomic.Uint32
}

// NewAlone names a source that is read alone.
func NewAlone(name string, s Source) *Alone { return &Alone{Source: s, name: name} }

// Next is that of the source.
func (a *Alone) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	page, err := a.Source.Next(ctx, sequence)
	if len(page) > 0 {
		a.newest.Store(page[len(page)-1].Sequence)
	}
	return page, err
}

// Standings say which ledger it gave last.
func (a *Alone) Standings() domain.SourceStandings {
	newest := a.newest.Load()
	return domain.SourceStandings{
		Need:    1,
		Ledger:  newest,
		Sources: []domain.SourceStanding{{Name: a.name, State: domain.SourceAlone, Ledger: newest}},
	}
}
