package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"

	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// Limits of prefetching: at most aheadMax pages of at most pageSizeBytesMax, and fewer if they
// would probably exceed aheadSizeBytesMax, judging by the last page.
const (
	aheadMax          = 8
	aheadSizeBytesMax = 32 << 20
	pageSizeBytesAim  = 2 << 20 // target size of a page's ledgers
)

// fetch is a requested page.
type fetch struct {
	first  uint32
	limit  int
	cancel context.CancelFunc
	done   chan struct{}
	got    ledgers // valid once done is closed, like err
	err    error
}

// fetch requests a page without waiting for it. A prefetch outlives ctx.
func (s *Source) fetch(ctx context.Context, first uint32, sizeBytesMax int64) *fetch {
	f := &fetch{first: first, limit: s.pageSize, done: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(f.done)
		defer f.cancel()
		f.err = s.call(ctx, protocol.GetLedgersMethodName, protocol.GetLedgersRequest{
			StartLedger: f.first,
			Pagination:  &protocol.LedgerPaginationOptions{Limit: uint(f.limit)},
		}, &f.got, sizeBytesMax)
		if errors.Is(f.err, errTooLarge) && sizeBytesMax > pageSizeBytesMax {
			debug.FreeOSMemory()
		}
	}()
	return f
}

func (s *Source) drop() {
	for _, f := range s.ahead {
		f.cancel()
	}
	s.ahead, s.depth = nil, 1
}

// page waits for a page and returns its ledgers that follow each other. It fails if the first one
// doesn't follow the last ledger read. It also prefetches the next pages.
func (s *Source) page(ctx context.Context, f *fetch) ([]ledger.Raw, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		f.cancel()
		return nil, ctx.Err()
	}
	if f.err != nil {
		return nil, f.err
	}
	var page []ledger.Raw
	sizeBytes := 0
	for _, l := range f.got.Ledgers[:min(len(f.got.Ledgers), f.limit)] {
		page = append(page, ledger.Raw{Sequence: l.Sequence, Hash: l.Hash, XDR: l.XDR})
		sizeBytes += len(l.XDR)
	}
	if len(page) == 0 {
		return nil, fmt.Errorf("the Stellar RPC at %s reports ledger %d, but returns no ledger",
			s.host, f.first)
	}
	if f.got.Latest > 0 {
		s.latest = f.got.Latest
	}
	s.grow(sizeBytes, len(page))
	s.fetchAhead(ctx, f.first+uint32(len(page)))
	return s.poll.Fitting(page, f.first, "the Stellar RPC at "+s.host)
}

// grow sets the size of the next request according to the size of the last page. At most, it
// doubles the number of ledgers and pages, within their limits.
func (s *Source) grow(sizeBytes, ledgers int) {
	fit := pageSizeBytesAim / (sizeBytes/ledgers + 1)
	s.pageSize = max(1, min(2*s.pageSize, fit, cmp.Or(s.config.PageSize, pageSizeMax)))
	s.depth = min(max(1, 2*s.depth), aheadMax, aheadSizeBytesMax/(sizeBytes+1))
}

func (s *Source) fetchAhead(ctx context.Context, next uint32) {
	if len(s.ahead) > 0 && s.ahead[0].first != next {
		s.drop()
	}
	if n := len(s.ahead); n > 0 {
		next = s.ahead[n-1].first + uint32(s.ahead[n-1].limit)
	}
	for len(s.ahead) < s.depth && next <= s.latest {
		s.ahead = append(s.ahead, s.fetch(ctx, next, s.pageMax))
		next += uint32(s.pageSize)
	}
}
