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

// Bounds and defaults.
const (
	membersMax      = 32
	pageSizeMax     = 64 // ledgers in one answer
	idleLooksMax    = 10 // of the source that is preferred, before the others are asked
	rememberedMax   = 1024
	lookMax         = 3 * time.Minute
	latestMax       = 10 * time.Second
	graceMax        = time.Second // for sources that have not answered yet when Need have
	intervalDefault = time.Second
	leftFirst       = time.Second
	leftLast        = time.Minute
	lateDefault     = 10 * time.Second
)

// Member is one of the sources.
type Member struct {
	Name   string // without secrets: logs and metrics have it
	Source source.Looker
}

// Config configures the sources, and how many must agree.
type Config struct {
	Members []Member // in order of preference; at most 32
	Need    int      // how many must name the same hash; 1 or more

	Interval  time.Duration // between looks for the next ledger; 1 s when 0
	Late      time.Duration // how long an answer may take before others are queried; 10 s when 0
	LeftFirst time.Duration // for how long a source is left alone at first; 1 s when 0
	LeftLast  time.Duration // and at most, after doubling each time; 1 min when 0

	Log *slog.Logger // silent when nil
	Now func() time.Time
	// OnLeft is called when a source is left alone, once for each reason in a row; it may be nil.
	OnLeft func(name, reason string)
	// Jitter varies the waits, as in retry.Policy.
	Jitter func() float64
}

// Source is a source.Source over several. It is for one goroutine, and asks in others.
type Source struct {
	*Core
	answers  chan answer
	requests []request // by member
	unusable string    // the members that each last warned about
}

// request is a request to a member that has not been answered yet.
type request struct {
	life context.Context // its prefetching outlives a look
	end  context.CancelFunc
	cut  *time.Timer // cancels a look that takes too long
}

// answer is the result of a look.
type answer struct {
	Look
	page []ledger.Raw
	err  error
}

// New makes a source of several. It asks nothing yet.
func New(config Config) (*Source, error) {
	core, err := NewCore(config)
	if err != nil {
		return nil, err
	}
	n := len(core.members)
	return &Source{Core: core, answers: make(chan answer, n), requests: make([]request, n)}, nil
}

// Check asks all. Sources that do not answer, or with Need 2 and more serve another network, are
// only logged as long as Need others answer. A silent one delays Check by at most graceMax then.
func (s *Source) Check(ctx context.Context) error {
	_, err := each(ctx, s, func(ctx context.Context, m *member) (struct{}, error) {
		return struct{}{}, m.Source.Check(ctx)
	})
	return err
}

// Latest queries all sources for their newest ledger, and returns the newest one that Need of them
// have, of those that answer in time, like Check. With Need 1 it is the first source's, in their
// order.
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

// each queries all members at once, and returns at least Need answers in their order.
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
		// It is not queried again until it answers, and a late answer is ignored because its turn
		// has ended.
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

// judge returns why there are too few answers, and logs changes of the unusable sources.
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
		return wrong // with Need 1 no source can outvote it: the settings are wrong
	case answered < s.config.Need: // without its kind: that one network is wrong is not the reason
		return fmt.Errorf("%d of %d sources of ledgers answered, and %d are needed: %v", answered,
			len(failed), s.config.Need, why)
	case names == s.unusable:
	case names == "":
		s.unusable = names
		s.config.Log.Info("all sources of ledgers answer")
	default:
		s.unusable = names
		s.config.Log.Warn("a source of ledgers cannot be used now", "sources", names, "err", why)
	}
	return nil
}

// collect records the answers until all sources have answered, or Need of them have and graceMax
// has passed.
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

// await ends requests in flight, for a call that replaces them.
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

// Next waits until Need sources agree on a ledger, and returns it and the ones after it on which
// they agree too. It fails only where waiting does not help: see domain.LedgerError.
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

// ask begins to look, without waiting for it.
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

// answered notes that a member may be asked again.
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

// stop cancels the requests that have not been answered.
func (r request) stop() {
	if r.end != nil {
		r.end()
	}
}

// drain processes the answers since the last call.
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

// stop ends requests in flight that are no longer needed.
func (s *Source) stop(ctx context.Context) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	for _, r := range s.requests {
		r.stop()
	}
}
