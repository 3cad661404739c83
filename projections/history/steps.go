package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
)

const (
	stepsMaxPage = 250
	factsMax     = 100_000  // folded for a page
	factsMaxSize = 32 << 20 // total size of these facts, in bytes
)

// EndpointSteps returns an endpoint's own facts ([domain.Fact.Kept]) and its states. The errors are
// ErrNotFound, ErrFactsMissing, ErrManyFacts, ErrBehind, ErrUnavailable and the context's error.
func (h *History) EndpointSteps(
	ctx context.Context, f readmodel.StepFilter,
) (readmodel.StepPage[domain.Endpoint], error) {
	return steps(ctx, h, f, folding[domain.Endpoint]{
		evolve: func(e domain.Endpoint, fact domain.Fact) domain.Endpoint {
			e, _ = domain.EvolveEndpoint(e, domain.Delivery{}, fact)
			return e
		},
		owner: func(e domain.Endpoint) string { return e.AccountID },
		each:  tables.eachFact,
	})
}

// WatchSteps returns a watch's facts and its states. Its errors are those of EndpointSteps.
func (h *History) WatchSteps(
	ctx context.Context, f readmodel.StepFilter,
) (readmodel.StepPage[domain.Watch], error) {
	return steps(ctx, h, f, folding[domain.Watch]{
		evolve: domain.EvolveWatch,
		owner:  func(w domain.Watch) string { return w.AccountID },
		each:   tables.eachFact,
	})
}

type folding[S any] struct {
	evolve func(S, domain.Fact) S
	owner  func(S) string // nil if each only reads facts of the account's objects
	each   func(tables, context.Context, readmodel.StepFilter, func(domain.Fact) error) error
	// precedes reports whether a fact may come next. If it is nil, only the first fact is checked.
	precedes func(S, domain.Fact) bool
	// shows reports whether a step is shown. If it is nil, all are.
	shows func(domain.Step[S]) bool
}

func steps[S any](
	ctx context.Context, h *History, f readmodel.StepFilter, how folding[S],
) (page readmodel.StepPage[S], err error) {
	if f.Limit < 1 || f.Limit > stepsMaxPage {
		return page, fmt.Errorf("projections: a page has 1 to %d steps, not %d", stepsMaxPage, f.Limit)
	}
	err = h.ask(ctx, func(of *reading) error {
		page, err = readSteps(ctx, of, f, how)
		// The object may have been created just now. Another account's object causes the same wait, so
		// that the wait reveals nothing.
		if errors.Is(err, readmodel.ErrNotFound) || errors.Is(err, readmodel.ErrFactsMissing) {
			if err := of.catchUp(ctx); err != nil {
				return err
			}
			page, err = readSteps(ctx, of, f, how)
		}
		return err
	})
	return page, err
}

func readSteps[S any](
	ctx context.Context, of *reading, f readmodel.StepFilter, how folding[S],
) (page readmodel.StepPage[S], err error) {
	var found error
	err = of.onFull(ctx, func() error {
		var folded fold[S]
		err := of.readOnly(ctx, func(ctx context.Context) error {
			folded = fold[S]{folding: how, limit: f.Limit}
			return how.each(of.db, ctx, f, folded.add)
		})
		err = folded.ended(ctx, err)
		var ofFacts error
		if isOfFacts(err) {
			ofFacts, err = err, nil
		}
		found = folded.fault(f.AccountID, ofFacts)
		if err == nil && found == nil {
			page = folded.page()
		}
		return err
	})
	return page, cmp.Or(err, found)
}

type fold[S any] struct {
	folding[S]
	limit int

	state S
	facts int
	shown int
	last  []domain.Step[S] // the last steps that are shown, at most 2*limit
}

func (b *fold[S]) add(f domain.Fact) error {
	if b.facts++; b.facts > factsMax {
		return readmodel.ErrManyFacts
	}
	if b.precedes != nil && !b.precedes(b.state, f) {
		return fmt.Errorf("%w: %s %d does not follow", readmodel.ErrFactsMissing, f.Body.FactType(),
			f.Version)
	}
	step := domain.Step[S]{Fact: f, Before: b.state, After: b.evolve(b.state, f)}
	b.state = step.After
	if b.shows != nil && !b.shows(step) {
		return nil
	}
	b.shown++
	if len(b.last) == 2*b.limit { // rarely moves, and keeps its memory
		n := copy(b.last, b.last[b.limit:])
		clear(b.last[n:])
		b.last = b.last[:n]
	}
	b.last = append(b.last, step)
	return nil
}

// isOfFacts reports whether an error is about the facts, not about reading them.
func isOfFacts(err error) bool {
	return errors.Is(err, readmodel.ErrManyFacts) || errors.Is(err, readmodel.ErrFactsMissing)
}

// ended returns why a fold is incomplete. If the server has sent facts until the timeout, it is
// alive, and another server would not be faster.
func (b *fold[S]) ended(ctx context.Context, err error) error {
	if isOfFacts(err) {
		return err
	}
	fault := readFault(ctx, err)
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	if late && b.facts > 0 && errors.Is(fault, readmodel.ErrUnavailable) {
		return fmt.Errorf("%w in time: %w", readmodel.ErrManyFacts, err)
	}
	return fault
}

// fault returns why there is no page for the account: it may not see the object, or the facts are
// incomplete.
func (b *fold[S]) fault(accountID string, ofFacts error) error {
	owner := accountID
	if b.owner != nil {
		owner = b.owner(b.state)
	} else if b.facts == 0 && ofFacts == nil {
		return readmodel.ErrNotFound
	}
	switch owner {
	case accountID:
		return ofFacts
	case "":
		if b.facts > 0 {
			return readmodel.ErrFactsMissing
		}
	}
	return readmodel.ErrNotFound
}

func (b *fold[S]) page() (page readmodel.StepPage[S]) {
	page.More = b.shown > b.limit
	for i := len(b.last) - 1; i >= 0 && len(page.Steps) < b.limit; i-- {
		page.Steps = append(page.Steps, b.last[i])
	}
	return page
}

const selectFacts = `
SELECT fact, form, value FROM {database:Identifier}.facts
PREWHERE aggregate_id = {aggregate:String} AND version < {before:UInt64}
ORDER BY version LIMIT 1 BY version LIMIT {most:UInt32}`

// eachFact calls visit with an aggregate's stored facts in order, including at most one more than
// can be folded.
func (db tables) eachFact(
	ctx context.Context, f readmodel.StepFilter, visit func(domain.Fact,
	) error) error {
	before := f.Before
	if before == 0 {
		before = ^before
	}
	which := writer.Parameters{
		"aggregate": f.ID,
		"before":    strconv.FormatUint(before, 10),
		"most":      strconv.Itoa(factsMax + 1),
	}
	var kept keptFacts
	err := db.Query(ctx, selectFacts, which, func(read func(...any) error) error {
		fact, err := kept.decode(ctx, read)
		if err != nil {
			return err
		}
		return visit(fact)
	})
	if err != nil {
		return fmt.Errorf("projections: reading the facts of %s: %w", f.ID, err)
	}
	return nil
}

// keptFacts limits the size of the values that are decoded for a page.
type keptFacts struct{ sizeBytes int }

func (k *keptFacts) decode(
	ctx context.Context, read func(...any) error, more ...any,
) (f domain.Fact, err error) {
	var m schemas.Message
	if err := read(append([]any{&m.Type, &m.Version, &m.Value}, more...)...); err != nil {
		return f, err
	}
	if k.sizeBytes += len(m.Value); k.sizeBytes > factsMaxSize {
		return f, readmodel.ErrManyFacts
	}
	if err := ctx.Err(); err != nil { // facts may take long to decode although they were read in time
		return f, err
	}
	return schemas.DecodeFact(m)
}
