package sim

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/engine"
)

// Bug is a fault of the system itself, planted to check that the checkers find it.
type Bug int

// Bugs.
const (
	NoBug          Bug = iota
	IgnoreDisabled     // attempts start for endpoints that are disabled
	LoseFact           // the log loses a committed record of the journal
	LoseMatch          // the follower continues without appending a match
	SkipFold           // a task starts on a fresh store without folding the journal
	ForgetDedup        // answered commands are not recognized any more
	SkipBarrier        // the follower matches without catching up with the watches
	NoFence            // the log accepts what a former owner writes
	LoseOutcome        // an attempt's outcome is lost
	ForgeOutcome       // an outcome that no receiver gave is recorded
	StartNothing       // what is due is not started
	AckUncommitted     // answers are sent before the transaction is committed
	StaleRow           // the table gets another row than the journal's
	HurryRetries       // retries come in half the time
	GroupPositions     // a task continues at the group's positions, which may have been dropped
	LeakAborted        // aborted records are returned where a response is cut
	TrustEnd           // a task trusts a broker's end of the journal
)

// Bugs lists all of them with their names.
func Bugs() map[Bug]string {
	return map[Bug]string{
		IgnoreDisabled: "IgnoreDisabled",
		LoseFact:       "LoseFact",
		LoseMatch:      "LoseMatch",
		SkipFold:       "SkipFold",
		ForgetDedup:    "ForgetDedup",
		SkipBarrier:    "SkipBarrier",
		NoFence:        "NoFence",
		LoseOutcome:    "LoseOutcome",
		ForgeOutcome:   "ForgeOutcome",
		StartNothing:   "StartNothing",
		AckUncommitted: "AckUncommitted",
		StaleRow:       "StaleRow",
		HurryRetries:   "HurryRetries",
		GroupPositions: "GroupPositions",
		LeakAborted:    "LeakAborted",
		TrustEnd:       "TrustEnd",
	}
}

// losesRecord is called by the log for each record, and returns whether to lose it.
func (w *World) losesRecord(r streams.Record) bool {
	return w.bug == LoseFact && r.Topic == schemas.TopicJournal && w.rnd.IntN(50) == 0
}

// plant causes the damage of bugs that act after a turn.
func (w *World) plant(t *task) {
	if w.bug != IgnoreDisabled {
		return
	}
	m := w.checks.model
	for _, id := range m.created {
		d, e := m.deliveries[id], m.endpoints[id.endpoint]
		if e.Status == domain.StatusDisabled && d.State.Pending() &&
			w.log.partitionOf(schemas.TopicJournal, id.endpoint) == t.partition {
			dispatcher{t.process, t.partition}.Dispatch(domain.Attempt{
				EventID:    id.event,
				EndpointID: id.endpoint,
				Number:     d.Attempts + 1,
				Sequence:   d.Sequence,
				URL:        e.URL,
				Body:       m.bodies[id],
			}, func(domain.AttemptResult) {})
			return
		}
	}
}

// hurried returns a policy with half the waits.
func hurried(p domain.Policy) domain.Policy {
	waits := make([]int64, len(p.Schedule.WaitsMillis))
	for i, wait := range p.Schedule.WaitsMillis {
		waits[i] = wait / 2
	}
	p.Schedule.WaitsMillis = waits
	return p
}

type handler = streams.Handler[engine.Effect, engine.Outcome]

// spoilHandler adds the handler's bugs.
func (w *World) spoilHandler(h handler) handler {
	switch w.bug {
	case StartNothing:
		return lazy{h}
	case ForgetDedup:
		return forgetful{h}
	default:
		return h
	}
}

// lazy is a handler that does not start what is due.
type lazy struct{ handler }

func (lazy) AfterCommit(a streams.After) ([]engine.Effect, int64, error) {
	return nil, a.NowMillis + 60_000, nil
}

// forgetful is a handler that does not know earlier answers.
type forgetful struct{ handler }

func (f forgetful) Turn(t *streams.Turn, outcomes []engine.Outcome) error {
	for _, r := range t.Inputs[0] {
		if isDamaged(r) {
			continue
		}
		c, err := schemas.DecodeCommand(schemas.Read(r.Value, r))
		if err == nil {
			err = t.Batch.Delete([]byte(stateKey(keyCommand, c.ID)))
		}
		if err != nil {
			return err
		}
	}
	return f.handler.Turn(t, outcomes)
}

// tellEarly is a bug: clients are answered before the commit.
func (w *World) tellEarly(records []streams.Record) {
	if w.bug != AckUncommitted {
		return
	}
	for _, r := range records {
		if r.Topic == schemas.TopicResults {
			w.clients.take(r)
		}
	}
}

// spoil changes a row that is being written to its table.
func spoil(records []streams.Record) []streams.Record {
	var spoiled []streams.Record
	for _, r := range records {
		if r.Topic == schemas.TopicEndpoints {
			e, err := schemas.DecodeEndpoint(schemas.Read(r.Value, r))
			if err != nil {
				panic(err)
			}
			e.Description = "spoiled"
			m := schemas.EncodeEndpoint(e)
			at := r.Partition
			r = streams.NewRecord(r.Topic, string(r.Key), m.Value, m.EachHeader)
			r.Partition = at
		}
		spoiled = append(spoiled, r)
	}
	return spoiled
}
