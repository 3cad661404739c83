package sim

import (
	"math"
	"slices"
	"strconv"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

// standby is a copy of a partition on a process that doesn't own it. The simulation drives its
// standby core.
type standby struct {
	process   *engineProcess
	partition int32
	core      *core // nil before it starts
	// undecided are transactions whose records a broker returned as if they were committed.
	undecided []*span
}

// acceptableLag is kafka.BalanceConfig.AcceptableLag. The journals of runs are short.
const acceptableLag = 24

func (s *standby) journal() topicPartition {
	return topicPartition{schemas.TopicJournal, s.partition}
}

func (s *standby) snapshots() topicPartition {
	return topicPartition{schemas.TopicSnapshots, s.partition}
}

// standBy starts and stops a process's standbys, so that there is one for each of the partitions.
func (e *engineProcess) standBy(partitions []int32) {
	for _, s := range slices.Clone(e.standbys) {
		if !slices.Contains(partitions, s.partition) {
			e.endStandby(s.partition)
		}
	}
	for _, p := range partitions {
		if e.standbyOf(p) == nil {
			e.standbys = append(e.standbys, &standby{process: e, partition: p})
			e.world.tracef("engine %d stands by for partition %d", e.id, p)
		}
	}
}

func (e *engineProcess) standbyOf(p int32) *standby {
	for _, s := range e.standbys {
		if s.partition == p {
			return s
		}
	}
	return nil
}

// endStandby closes the copy, so that it can be opened again.
func (e *engineProcess) endStandby(p int32) {
	if s := e.standbyOf(p); s != nil {
		s.close()
		e.standbys = slices.DeleteFunc(e.standbys, func(o *standby) bool { return o == s })
	}
}

func (s *standby) close() {
	if s.core == nil {
		return
	}
	if err := s.core.Close(); err != nil {
		s.process.world.violate("closing the copy of partition %d: %v", s.partition, err)
	}
	s.core, s.undecided = nil, nil
}

func (w *World) workStandby() bool {
	var ready []*standby
	for _, e := range workers(w.engines) {
		for _, s := range e.standbys {
			if s.ready() {
				ready = append(ready, s)
			}
		}
	}
	return keepWorking(w, ready, (*standby).ready)
}

// ready reports whether there is something to do. While there is a task for the partition, the task
// owns the state.
func (s *standby) ready() bool {
	w := s.process.world
	if s.core == nil {
		return !slices.ContainsFunc(s.process.tasks,
			func(t *engineTask) bool { return t.partition == s.partition })
	}
	switch a := s.core.Next(w.moment()).(type) {
	case task.ReadJournal:
		return w.log.stable(s.journal()) > a.From || s.undecidedSettled()
	case task.ReadSnapshots:
		return w.log.stable(s.snapshots()) > a.From
	default:
		return true
	}
}

func (s *standby) undecidedSettled() bool {
	return slices.ContainsFunc(s.undecided, func(t *span) bool { return t.fate != fateOpen })
}

func (s *standby) work() {
	w := s.process.world
	if s.core == nil {
		s.core = task.NewStandbyCore(w.coreConfig(s.partition, s.process.disk(s.partition),
			w.snapshotConfig(), func(cfg engine.Config) handler { return engine.NewHandler(cfg, nil) }))
		s.must(s.core.OpenState())
		return
	}
	switch a := s.core.Next(w.moment()).(type) {
	case task.LocateJournal:
		s.must(s.core.LocatedJournal(w.bounds(s.journal())))
	case task.LocateSnapshots:
		s.must(s.core.LocatedSnapshots(w.log.bounds(s.snapshots())))
	case task.ReadSnapshots:
		s.readSnapshots(a)
	case task.ReadJournal:
		s.readJournal(a)
	default:
		w.violate("a standby wants to do %T", a)
	}
}

func (s *standby) readSnapshots(a task.ReadSnapshots) {
	w := s.process.world
	records, next, err := w.log.readUpTo(s.snapshots(), a.From, a.To, 1+w.rnd.IntN(8))
	if err != nil {
		s.fallBehind(err)
		return
	}
	s.must(s.core.ReadSnapshots(records, next))
}

// fallBehind closes a copy that lacks deleted records. The next copy continues from a snapshot.
func (s *standby) fallBehind(err error) {
	w := s.process.world
	w.tracef("the copy of partition %d on engine %d: %v", s.partition, s.process.id, err)
	w.count("standby: copies behind retention")
	s.close()
}

func (s *standby) readJournal(a task.ReadJournal) {
	w := s.process.world
	if s.noticesAborted() {
		w.tracef("engine %d drops its copy of partition %d: it has aborted records", s.process.id,
			s.partition)
		w.count("standby: copies distrusted")
		if err := s.core.Failed(kafka.ErrAborted, w.moment()); err == nil {
			w.violate("a standby that has aborted records goes on")
		}
		s.close()
		return
	}
	s.read(a)
}

// noticesAborted reports whether records that were returned turn out to be aborted.
func (s *standby) noticesAborted() bool {
	aborted := slices.ContainsFunc(s.undecided, func(t *span) bool { return t.fate == fateAborted })
	s.undecided = slices.DeleteFunc(s.undecided, func(t *span) bool { return t.fate != fateOpen })
	return aborted
}

// read reads some records. Sometimes it includes undecided ones, as from a broker with a wrong list
// of aborted transactions.
func (s *standby) read(a task.ReadJournal) {
	w := s.process.world
	most := math.MaxInt
	if w.chance(0.3) {
		most = 1 + w.rnd.IntN(64)
	}
	records, next, err := w.log.readKept(s.journal(), a.From, most)
	if err != nil {
		s.fallBehind(err)
		return
	}
	if next == w.log.stable(s.journal()) && w.fault(0.5) {
		var undecided []kafka.Record
		if undecided, s.undecided = w.log.undecided(s.journal(), next); len(undecided) > 0 {
			w.count("standby: undecided records handed out")
			w.handedOut[s.partition] = true
			records, next = append(records, undecided...), w.log.end(s.journal())
		}
	}
	s.must(s.core.ReadJournal(records, next))
	s.verify()
	if owner := w.owners[s.partition]; len(s.undecided) > 0 && owner != nil && owner.alive &&
		w.chance(0.3) {
		w.count("standby: crashes of an owner whose undecided records it has")
		owner.crash()
	}
}

// verify compares a copy that has folded everything with the model.
func (s *standby) verify() {
	w := s.process.world
	end := w.log.end(s.journal())
	if !s.core.Following() || len(s.undecided) > 0 || w.log.stable(s.journal()) < end ||
		s.core.Read() < end || !w.calm && !w.chance(0.1) || s.unproved() {
		return
	}
	if d := w.differs(s.core.Store(), s.partition); d != "" {
		w.violate("G4: the copy of partition %d is not the fold of its journal: %s", s.partition, d)
	}
	w.count("standby: copies compared")
}

// unproved reports whether the copy may have records that were never committed without the journal
// showing it yet: an earlier standby on this disk folded undecided records, and nothing has been
// written to the journal since.
func (s *standby) unproved() bool {
	w := s.process.world
	records, _ := w.log.read(s.journal(), max(0, s.core.FoldedOf()-1), 1)
	return w.handedOut[s.partition] && len(records) == 0
}

func (s *standby) must(err error) {
	if err != nil {
		s.process.world.violate("G4: the copy of partition %d: %v", s.partition, err)
	}
}

// undecided returns the records of open transactions from an offset on, and these transactions.
func (l *Log) undecided(at topicPartition, from int64) (records []kafka.Record, open []*span) {
	for _, e := range l.partitions[at].entries[from:] {
		if e.control || e.span == nil || e.span.fate != fateOpen {
			continue
		}
		records = append(records, e.record)
		if !slices.Contains(open, e.span) {
			open = append(open, e.span)
		}
	}
	return records, open
}

func (e *engineProcess) folded() map[int32]int64 {
	by := make(map[int32]int64)
	for _, s := range e.standbys {
		by[s.partition] = 0
		if s.core != nil {
			by[s.partition] = s.core.FoldedOf()
		}
	}
	for _, t := range e.tasks {
		by[t.partition] = 0
		if t.core != nil {
			by[t.partition] = t.core.FoldedOf()
		}
	}
	return by
}

// rebalance assigns the partitions to the members as an engine's group does. It waits for members
// that are giving up partitions, and for those that have not noticed the rebalance.
func (w *World) rebalance() bool {
	var members []kafka.GroupMember
	by := make(map[string]*engineProcess)
	for _, e := range w.engines {
		draining := slices.ContainsFunc(e.tasks,
			func(t *engineTask) bool { return w.owners[t.partition] != e })
		switch {
		case !e.alive || !e.in:
			continue
		case e.paused || draining:
			return false
		}
		id := strconv.Itoa(e.id)
		by[id] = e
		members = append(members, kafka.GroupMember{
			ID:     id,
			Rack:   []string{"", "a", "b"}[(e.id+int(w.seed%3))%3], // #nosec G115 -- below 3
			Owns:   e.owns(),
			Folded: e.folded(),
		})
	}
	assigned := kafka.Balance(members, kafka.BalanceConfig{
		Partitions:    w.setup.partitions,
		Replicas:      w.setup.standbys,
		AcceptableLag: acceptableLag,
	})
	did := false
	for _, m := range members {
		did = w.follow(by[m.ID], assigned[m.ID], members) || did
	}
	return did
}

func (e *engineProcess) owns() (list []int32) {
	for p := range e.world.setup.partitions {
		if e.world.owners[p] == e {
			list = append(list, p)
		}
	}
	return list
}

func (w *World) follow(
	e *engineProcess, a kafka.Assignment, members []kafka.GroupMember,
) (did bool) {
	for _, p := range e.owns() {
		if !slices.Contains(a.Owns, p) {
			w.revoke(e, p)
			did = true
		}
	}
	for _, p := range a.Owns {
		if w.owners[p] == e {
			continue
		}
		w.checkAssigned(e, p, members)
		e.assign(p)
		did = true
	}
	e.standBy(a.Standbys)
	return did
}

// checkAssigned checks that a newly assigned partition has no other owner, and that no member has a
// copy that is further ahead by more than acceptableLag.
func (w *World) checkAssigned(e *engineProcess, p int32, members []kafka.GroupMember) {
	var furthest int64
	for _, m := range members {
		furthest = max(furthest, m.Folded[p])
		if id := strconv.Itoa(e.id); slices.Contains(m.Owns, p) && m.ID != id {
			w.violate("G3: partition %d is given to engine %s, and engine %s has not given it up", p, id,
				m.ID)
		}
	}
	id := slices.IndexFunc(members,
		func(m kafka.GroupMember) bool { return m.ID == strconv.Itoa(e.id) })
	if lag := furthest - members[id].Folded[p]; lag > acceptableLag {
		w.violate("partition %d is given to engine %d, which is %d behind another", p, e.id, lag)
	}
}

// moveStandbys makes a process stand by for arbitrary partitions, as after assignments that are not
// simulated.
func (w *World) moveStandbys() bool {
	e, ok := pick(w, workers(w.engines))
	if !ok || w.setup.standbys == 0 {
		return false
	}
	var some []int32
	for p := range w.setup.partitions {
		if w.owners[p] != e && w.chance(0.7) {
			some = append(some, p)
		}
	}
	e.standBy(some)
	return true
}

// standbysDrawn returns the number of standbys per partition in a run. It is drawn independently of
// the other settings.
func standbysDrawn(seed uint64) int { return []int{0, 1, 1, 2}[seed%4] }
