package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/standing"
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
	graceMax        = time.Second // for those that were asked beside Need that have answered
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

// Config says who is asked, and how many must agree.
type Config struct {
	Members []Member // in order of preference; at most 32
	Need    int      // how many must name the same hash; 1 or more

	Interval  time.Duration // between looks for the next ledger; 1 s when 0
	Late      time.Duration // how long an answer may take before others are asked; 10 s when 0
	LeftFirst time.Duration // for how long a source is left alone at first; 1 s when 0
	LeftLast  time.Duration // and at most, after doubling each time; 1 min when 0

	Log *slog.Logger // silent when nil
	Now func() time.Time
	// OnLeft is called when a source is left alone, once for each reason in a row; it may be nil.
	OnLeft func(name, reason string)
}

// chain is a ledger's number and hash.
type chain struct {
	sequence uint32
	hash     string
}

// Source is a source.Source over several. It is for one goroutine, and asks in others.
type Source struct {
	config     Config
	members    []*member
	answers    chan answer
	before     chain                // the ledger that was given last
	remembered [rememberedMax]chain // what was given, by its number
	told       uint32               // the ledger of which it was said that it is waited for
	giver      string               // with Need 1, as last logged
	unusable   string               // the members that each last warned about
	shown      atomic.Pointer[standing.Standings]
}

// New makes a source of several. It asks nothing yet.
func New(config Config) (*Source, error) {
	config.Interval = cmp.Or(config.Interval, intervalDefault)
	config.Late = cmp.Or(config.Late, lateDefault)
	config.LeftFirst = cmp.Or(config.LeftFirst, leftFirst)
	config.LeftLast = cmp.Or(config.LeftLast, leftLast)
	config.Log = cmp.Or(config.Log, slog.New(slog.DiscardHandler))
	if config.Now == nil {
		config.Now = time.Now
	}
	s := &Source{config: config}
	names := map[string]bool{}
	for _, m := range config.Members {
		if names[m.Name] {
			return nil, fmt.Errorf("%s is named twice: each of several sources must be another server",
				m.Name)
		}
		names[m.Name] = true
		s.members = append(s.members, &member{
			Member: m,
			alone:  retry.Policy{First: config.LeftFirst, Last: config.LeftLast}.Backoff(),
			again:  retry.Policy{First: config.Interval, Last: config.LeftLast / 4}.Backoff(),
		})
	}
	switch {
	case len(s.members) > membersMax:
		return nil, fmt.Errorf("%d sources are more than %d", len(s.members), membersMax)
	case config.Need < 1 || config.Need > len(s.members):
		return nil, fmt.Errorf("%d of %d sources cannot agree: name more servers, or ask for fewer",
			config.Need, len(s.members))
	}
	s.answers = make(chan answer, len(s.members))
	s.show()
	return s, nil
}

// Check asks all. Sources that do not answer, or with Need 2 and more serve another network, are
// only logged as long as Need others answer. A silent one delays Check by at most graceMax then.
func (s *Source) Check(ctx context.Context) error {
	_, err := each(ctx, s, func(ctx context.Context, m *member) (struct{}, error) {
		return struct{}{}, m.Source.Check(ctx)
	})
	return err
}

// Latest asks all for their newest ledger, and gives the newest that Need of those have that answer
// in time, as with Check; with Need 1 that of the first of them, in their order.
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

// each asks all members at once, and gives the answers in their order: at least Need.
func each[T any](
	ctx context.Context, s *Source, ask func(context.Context, *member) (T, error),
) (answers []T, err error) {
	s.await(ctx)
	ctx, cancel := context.WithTimeout(ctx, latestMax)
	defer cancel()
	values, failed := make([]T, len(s.members)), make([]error, len(s.members))
	open := map[*member]int{}
	for i, m := range s.members {
		failed[i] = fmt.Errorf("%s has not answered yet", m.Name)
		if m.asking {
			continue
		}
		open[m] = i
		// Until it answers nothing else is asked of it, and an answer that comes too late is of a
		// turn that has ended.
		turn := m.turn
		m.turn++
		m.asking, m.asked = true, s.config.Now()
		go func() {
			value, err := ask(ctx, m)
			values[i] = value
			s.answers <- answer{member: m, turn: turn, err: err}
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

// judge returns why the members' answers are too few, and logs the sources that cannot be used
// when they change.
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

// collect notes what came of each that was asked, until all have answered, or Need of them have and
// the others had as long again as graceMax.
func (s *Source) collect(ctx context.Context, open map[*member]int, failed []error) {
	var grace <-chan time.Time
	for well := 0; len(open) > 0; {
		select {
		case a := <-s.answers:
			a.member.answered()
			i, asked := open[a.member]
			if !asked {
				continue
			}
			delete(open, a.member)
			if failed[i] = a.err; a.err == nil {
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

// await ends what is under way, for a call that takes the place of it.
func (s *Source) await(ctx context.Context) {
	busy := 0
	for _, m := range s.members {
		if m.asking {
			busy++
			if m.end != nil {
				m.end()
			}
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
			a.member.answered()
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

// Continue says which ledger was read last: the next must follow it.
func (s *Source) Continue(sequence uint32, hash string) {
	if s.before == (chain{sequence, hash}) {
		return
	}
	s.before, s.told = chain{sequence, hash}, 0
	clear(s.remembered[:])
	for _, m := range s.members {
		m.turn++
		m.votes, m.final, m.idle = nil, nil, 0
		if m.reason == "" || m.reason == reasonBehind {
			m.until = time.Time{}
		}
	}
}

// Next waits until Need sources agree on a ledger and gives it, and those after it on which they
// agree too. It fails only for what waiting does not help against: see domain.LedgerError.
func (s *Source) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	s.drain(sequence)
	for _, m := range s.members {
		m.forget(sequence)
	}
	for {
		if ctx.Err() != nil {
			s.stop(ctx)
			return nil, ctx.Err()
		}
		page := s.agreed(sequence)
		s.show()
		if len(page) > 0 {
			return page, nil
		}
		if err := s.hopeless(sequence); err != nil {
			return nil, err
		}
		s.start(ctx, sequence)
		s.tell(sequence)
		timer := time.NewTimer(s.wait())
		select {
		case a := <-s.answers:
			s.take(a, sequence)
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// drain takes what was answered since the last call.
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

// stop ends what is under way when nobody will ask for it.
func (s *Source) stop(ctx context.Context) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	for _, m := range s.members {
		if m.end != nil {
			m.end()
		}
	}
}

// start asks who is to be asked: with Need 1 the first that may be, and another when that one is
// late or has nothing new for long; else all.
func (s *Source) start(ctx context.Context, due uint32) {
	now := s.config.Now()
	for _, m := range s.members {
		if _, voted := m.vote(due); voted && m.until.IsZero() {
			m.until = now.Add(m.again.Next()) // it said what the others do not
		}
		late := m.asking && now.Sub(m.asked) >= s.config.Late
		if late && m.reason == "" {
			s.report(m, reasonLate, due, nil, 0)
		}
		if !m.asking && !now.Before(m.until) {
			m.ask(ctx, s.before, due, s)
		}
		if s.config.Need == 1 && (m.asking && !late || m.idle > 0 && m.idle < idleLooksMax) {
			return
		}
	}
}

// wait is until somebody may be asked, or is late.
func (s *Source) wait() time.Duration {
	now, wait := s.config.Now(), s.config.Late
	for _, m := range s.members {
		switch {
		case m.asking && m.reason == "":
			wait = min(wait, m.asked.Add(s.config.Late).Sub(now))
		case !m.asking && m.until.After(now):
			wait = min(wait, m.until.Sub(now))
		}
	}
	return max(wait, time.Millisecond)
}

// take notes what a source answered.
func (s *Source) take(a answer, due uint32) {
	m := a.member
	m.answered()
	if a.turn != m.turn {
		return
	}
	switch {
	case a.err != nil:
		if source.IsPermanent(a.err) {
			m.final, m.finalAt = a.err, a.sequence
		}
		s.leave(m, reasonOf(a.err), a.sequence, a.err)
	case len(a.page) == 0:
		s.waits(m, due)
	default:
		m.votes, m.idle, m.final = a.page, 0, nil
		if m.until = (time.Time{}); m.reason == reasonLate {
			m.reason = ""
		}
		for _, l := range a.page {
			was := s.remembered[l.Sequence%rememberedMax]
			if was.sequence != l.Sequence {
				continue
			}
			if was.hash != l.Hash {
				s.disagrees(m, l, was.hash)
				return
			}
			s.agrees(m, a.page, l.Sequence)
		}
		m.forget(due)
	}
}

// waits notes that a source does not have the ledger yet. What it lacks, one that kept no older
// ones may have by now.
func (s *Source) waits(m *member, due uint32) {
	m.idle++
	m.final = nil
	m.until = s.config.Now().Add(s.config.Interval)
	if m.reason == reasonAway || m.reason == reasonLate || m.reason == reasonBehind {
		s.well(m, due)
		m.until = s.config.Now().Add(s.config.Interval)
	}
	for _, other := range s.members {
		if other.reason == reasonBehind && other.finalAt < due {
			other.until = time.Time{}
		}
	}
}

func (s *Source) disagrees(m *member, l ledger.Raw, hash string) {
	s.leave(m, reasonDisagrees, l.Sequence, fmt.Errorf("%s gave ledger %d with hash %s, and %d other "+
		"sources gave it with %s", m.Name, l.Sequence, l.Hash, s.config.Need, hash))
}
