package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// Limits and defaults.
const (
	membersMax      = 32
	pageSizeMax     = 64 // ledgers returned at once
	idleLooksMax    = 10 // of the preferred source, before others are queried
	rememberedMax   = 1024
	lookMax         = 3 * time.Minute
	latestMax       = 10 * time.Second
	graceMax        = time.Second // for slower sources, once Need have responded
	intervalDefault = time.Second
	leftFirst       = time.Second
	leftLast        = time.Minute
	lateDefault     = 10 * time.Second
)

// Member is a source with its name.
type Member struct {
	Name   string // for logs and metrics, without secrets
	Source source.Looker
}

// Config configures a Source or a Core.
type Config struct {
	Members []Member // in order of preference; at most 32
	Need    int      // number of sources that must report the same hash; at least 1

	Interval  time.Duration // between polls for the next ledger; default: 1 s
	Late      time.Duration // time after which others are queried as well; default: 10 s
	LeftFirst time.Duration // first exclusion of a source; default: 1 s
	LeftLast  time.Duration // longest exclusion, after doubling; default: 1 min

	Log *slog.Logger // nil: no logs
	Now func() time.Time
	// OnLeft, if not nil, is called when a source is excluded or the reason changes.
	OnLeft func(name, reason string)
	// Jitter varies the waits; see retry.Policy.
	Jitter func() float64
}

// Source is a source.Source that combines several. It is not safe for concurrent use.
type Source struct {
	*Core
	answers  chan answer
	requests []request // by member
	unusable string    // names of the sources that were last logged as unusable
}

type request struct {
	life context.Context // outlives a look, for prefetching
	end  context.CancelFunc
	cut  *time.Timer // cancels a look that takes too long
}

type answer struct {
	Look
	page []ledger.Raw
	err  error
}

// New returns a source. It doesn't query the sources yet.
func New(config Config) (*Source, error) {
	core, err := NewCore(config)
	if err != nil {
		return nil, err
	}
	n := len(core.members)
	return &Source{Core: core, answers: make(chan answer, n), requests: make([]request, n)}, nil
}

// Check checks all sources. If Need sources succeed, it waits at most graceMax for others, and only
// logs those that don't respond or, with a Need of 2 or more, serve another network.
func (s *Source) Check(ctx context.Context) error {
	_, err := each(ctx, s, func(ctx context.Context, m *member) (struct{}, error) {
		return struct{}{}, m.Source.Check(ctx)
	})
	return err
}

// Latest queries all sources for their newest ledger. It returns the newest one that Need of the
// sources that responded have. With a Need of 1, it returns that of the preferred one among them.
func (s *Source) Latest(ctx context.Context) (uint32, error) {
	latest, err := each(ctx, s, func(ctx context.Context, m *member) (uint32, error) {
		return m.Source.Latest(ctx)
	})
	if err != nil {
		return 0, err
	}
	if s.config.Need > 1 {
		slices.Sort(latest)
		slices.Reverse(latest)
	}
	return latest[s.config.Need-1], nil
}

// each queries all sources concurrently and returns the responses in their order, at least Need.
func each[T any](
	ctx context.Context, s *Source, ask func(context.Context, *member) (T, error),
) (answers []T, err error) {
	s.await(ctx)
	ctx, cancel := context.WithTimeout(ctx, latestMax)
	defer cancel()
	values, failed := make([]T, len(s.members)), make([]error, len(s.members))
	open := map[int]bool{}
	for i, m := range s.members {
		failed[i] = fmt.Errorf("%s has not answered yet", m.Name)
		if m.asking {
			continue
		}
		open[i] = true
		// A late response is ignored, because the turn has changed.
		turn := m.turn
		m.turn++
		m.asking, m.asked = true, s.config.Now()
		go func() {
			value, err := ask(ctx, m)
			values[i] = value
			s.answers <- answer{Look: Look{Member: i, turn: turn}, err: err}
		}()
	}
	s.collect(ctx, open, failed)
	for i, why := range failed {
		if why == nil {
			answers = append(answers, values[i])
		}
	}
	return answers, s.judge(failed)
}

// judge returns an error if there are too few responses, and logs changes of the unusable sources.
func (s *Source) judge(failed []error) error {
	var wrong error
	var unusable []string
	wrongs := 0
	for i, why := range failed {
		if why == nil {
			continue
		}
		unusable = append(unusable, s.members[i].Name)
		if errors.Is(why, domain.ErrWrongNetwork) {
			wrong, wrongs = why, wrongs+1
		}
	}
	why, answered := errors.Join(failed...), len(failed)-len(unusable)
	switch names := strings.Join(unusable, ", "); {
	case wrong != nil && (s.config.Need == 1 || wrongs > len(failed)-s.config.Need):
		return wrong // with a Need of 1, nothing outvotes it, so it is a configuration error
	case answered < s.config.Need: // %v: a wrong network isn't the reason
		return fmt.Errorf("%d of %d ledger sources responded, but %d are needed: %v", answered,
			len(failed), s.config.Need, why)
	case names == s.unusable:
	case names == "":
		s.unusable = names
		s.config.Log.Info("all ledger sources respond")
	default:
		s.unusable = names
		s.config.Log.Warn("some ledger sources cannot be used", "sources", names, "err", why)
	}
	return nil
}

// collect receives the responses until all sources have responded, or graceMax after Need have.
func (s *Source) collect(ctx context.Context, open map[int]bool, failed []error) {
	var grace <-chan time.Time
	for well := 0; len(open) > 0; {
		select {
		case a := <-s.answers:
			s.answered(a.Member)
			if !open[a.Member] {
				continue
			}
			delete(open, a.Member)
			if failed[a.Member] = a.err; a.err == nil {
				well++
			}
			if well == s.config.Need && grace == nil {
				grace = time.After(graceMax)
			}
		case <-grace:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (s *Source) await(ctx context.Context) {
	busy := 0
	for i, m := range s.members {
		if m.asking {
			busy++
			s.requests[i].stop()
		}
	}
	timer := time.NewTimer(s.config.Late)
	defer timer.Stop()
	var grace <-chan time.Time
	for busy > 0 {
		if grace == nil && len(s.members)-busy >= s.config.Need {
			grace = time.After(graceMax)
		}
		select {
		case a := <-s.answers:
			s.answered(a.Member)
			busy--
		case <-grace:
			return
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Next waits until Need sources agree on a ledger. It returns this ledger and the ledgers after it
// on which they agree as well. It fails only if waiting does not help; see domain.LedgerError.
func (s *Source) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	s.drain(sequence)
	for {
		if ctx.Err() != nil {
			s.stop(ctx)
			return nil, ctx.Err()
		}
		step := s.Step(sequence)
		if len(step.Page) > 0 || step.Err != nil {
			return step.Page, step.Err
		}
		for _, look := range step.Ask {
			s.ask(ctx, look)
		}
		timer := time.NewTimer(step.Wait)
		select {
		case a := <-s.answers:
			s.take(a, sequence)
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (s *Source) ask(ctx context.Context, look Look) {
	r, of := &s.requests[look.Member], s.members[look.Member].Source
	if r.life == nil || r.life.Err() != nil {
		r.life, r.end = context.WithCancel(context.WithoutCancel(ctx))
	}
	r.cut = time.AfterFunc(lookMax, r.end)
	life := r.life
	of.Continue(s.before.sequence, s.before.hash)
	go func() {
		page, err := of.Look(life, look.Sequence)
		s.answers <- answer{look, page, err}
	}()
}

func (s *Source) answered(member int) {
	s.members[member].asking = false
	if cut := s.requests[member].cut; cut != nil {
		cut.Stop()
	}
}

func (s *Source) take(a answer, due uint32) {
	s.answered(a.Member)
	s.Take(due, a.Look, a.page, a.err)
}

func (r request) stop() {
	if r.end != nil {
		r.end()
	}
}

func (s *Source) drain(due uint32) {
	for {
		select {
		case a := <-s.answers:
			s.take(a, due)
		default:
			return
		}
	}
}

// stop cancels requests in flight if the caller has cancelled ctx.
func (s *Source) stop(ctx context.Context) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	for _, r := range s.requests {
		r.stop()
	}
}
