package sim

import (
	"bytes"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/lab/draw"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	secondMillis = 1000
	hourMillis   = 3_600_000
	startMillis  = 1_793_500_000_000 // wall clock at the start of a run
)

type setup struct {
	partitions  int32
	engines     int
	followers   int
	policy      domain.Policy
	inFlight    int
	perEndpoint int
	faults      float64 // from 0, none, to 1, many
	jumps       bool    // the wall clock jumps
	endpoints   int
	watches     int
	haste       float64 // share of additional steps in which time passes
	remembered  int     // settled deliveries that a partition remembers; 0 means the product's default
	standbys    int     // per partition
	spoiled     float64 // share of receivers that don't start with status 200
	moves       []int   // steps in which the deployment is moved
	disasters   []disaster
	options     bool // endpoints may order the events of a wallet, and replay selected events
	invoices    bool // watches may expire and be for one payment
	notices     bool // each endpoint is notified about the next one
	quorum      bool // three sources of ledgers are read as one
	returns     bool // endpoints fail and are deleted often, and events are sent back to them
}

func newSetup(rnd *rand.Rand) setup {
	s := setup{
		partitions:  1 + rnd.Int32N(3),
		engines:     1 + rnd.IntN(3),
		followers:   1 + rnd.IntN(2),
		inFlight:    4 + rnd.IntN(13),
		perEndpoint: 1 + rnd.IntN(8),
		jumps:       rnd.IntN(3) == 0,
		endpoints:   2 + rnd.IntN(5),
		watches:     2 + rnd.IntN(6),
		policy:      domain.DefaultPolicy(),
	}
	s.faults = []float64{0, 0.1, 0.3, 1}[rnd.IntN(4)]
	if rnd.IntN(3) > 0 {
		s.policy.Schedule = domain.Schedule{WaitsMillis: []int64{30_000, 120_000, 600_000}[:1+
			rnd.IntN(3)]}
		s.policy.DisableAfter = 1 + rnd.IntN(4)
	}
	s.policy.HonourRetryAfter = rnd.IntN(2) == 0
	s.remembered = []int{0, 8, 8, 12, 32}[rnd.IntN(5)]
	s.haste, s.spoiled = []float64{0, 0.1, 0.25}[rnd.IntN(3)], []float64{0.2, 0.6, 1}[rnd.IntN(3)]
	return s
}

// World is a run: the complete simulated world, run by one goroutine.
type World struct {
	seed       uint64
	setup      setup
	rnd        *rand.Rand // for the current step
	steady     int64      // steady clock in milliseconds
	wallOff    int64      // offset of the wall clock
	setForward int64      // total by which the wall clock was set forward
	calm       bool       // no more faults

	log       *Log
	txnIDs    []string
	engines   []*engineProcess
	owners    map[int32]*engineProcess
	owned     map[int32][]*engineProcess // owners of each partition, in order
	followers []*followerProcess
	leader    *followerProcess
	flights   []*flight
	mailer    *mailerProcess
	// mailServer is the mail server's answer to each mail.
	mailServer domain.MailAnswer
	receivers  map[string]behaviour
	clients    *clients
	chain      *chain
	checks     *checks

	step       int
	hash       hash.Hash64
	keepLines  bool
	lines      []string
	Stats      map[string]int
	verifyLeft int
	askAgain   int64 // when clients stop waiting, by the steady clock
	latestWall int64 // latest time of the wall clock
	// handedOut are the partitions for which a standby got undecided records.
	handedOut map[int32]bool
	// former are the logs from which the deployment was moved. copiedTo are the ends of the copied
	// inputs in the current log.
	former   []formerLog
	copiedTo map[topicPartition]int64
	// backup is the latest backup. While held is set, one is being written and nothing is deleted.
	backup  *backup
	held    bool
	folders []string
}

// violation is the panic value of checkers.
type violation struct{ text string }

func (w *World) violate(format string, args ...any) {
	panic(violation{fmt.Sprintf(format, args...)})
}

func newWorld(seed uint64, keepLines bool) *World {
	rnd := rand.New(rand.NewPCG(seed, math.MaxUint64)) // #nosec G404 -- a run must repeat
	w := &World{
		seed:       seed,
		setup:      newSetup(rnd),
		rnd:        rnd,
		wallOff:    startMillis,
		hash:       fnv.New64a(),
		keepLines:  keepLines,
		Stats:      make(map[string]int),
		owners:     make(map[int32]*engineProcess),
		owned:      make(map[int32][]*engineProcess),
		receivers:  make(map[string]behaviour),
		handedOut:  make(map[int32]bool),
		verifyLeft: 3,
	}
	w.setup.standbys, w.setup.moves = standbysDrawn(seed), movesDrawn(seed)
	// These are not drawn, so that runs without them stay the same as before they existed.
	w.setup.options, w.setup.invoices = seed%3 == 0, seed%5 == 2
	w.setup.notices, w.setup.quorum = seed%16 == 2, seed%8 == 4
	if w.setup.returns = seed%64 == 29; w.setup.returns { // a class without seeds of shownBy
		w.setup.endpoints, w.setup.spoiled = 16, 1
	}
	if disasters, moves := disastersDrawn(seed); len(disasters) > 0 {
		w.setup.disasters, w.setup.moves = disasters, moves
	}
	w.log = newLog(w.setup.partitions)
	if w.setup.isCopied() {
		w.log.byClient()
	}
	w.checks = newChecks(w)
	w.checks.rebase()
	w.log.stands = w.checks.stands
	w.txnIDs = append(engineTxns(w.setup.partitions), followerTxn, backfillTxn)
	w.clients = newClients(w)
	w.chain = newChain(w)
	for i := range w.setup.engines {
		w.engines = append(w.engines, &engineProcess{world: w, id: i})
		w.engines[i].boot()
	}
	for i := range w.setup.followers {
		w.followers = append(w.followers, &followerProcess{world: w, id: i})
		w.followers[i].boot()
	}
	w.mailer, w.mailServer = &mailerProcess{world: w}, mailAnswers[rnd.IntN(len(mailAnswers))]
	w.mailer.boot()
	w.tracef("setup %+v", w.setup)
	return w
}

func (w *World) close() {
	for _, e := range w.engines {
		e.close()
	}
	for _, f := range w.followers {
		f.close()
	}
}

func (w *World) wall() int64 { return w.steady + w.wallOff }

func (w *World) moment() kafka.Moment {
	return kafka.Moment{WallMillis: w.wall(), SteadyMillis: w.steady}
}

// passed returns how far the wall clock has advanced, ignoring setbacks.
func (w *World) passed() int64 { return w.steady + w.setForward }

func (w *World) tracef(format string, args ...any) {
	line := strconv.Itoa(w.step) + " " + strconv.FormatInt(w.steady, 10) + " " +
		fmt.Sprintf(format, args...)
	w.hash.Write([]byte(line))
	if w.keepLines {
		w.lines = append(w.lines, line)
	}
}

func (w *World) count(what string) { w.Stats[what]++ }

func (w *World) note(what, format string, args ...any) {
	w.count(what)
	w.tracef(format, args...)
}

func (w *World) chance(p float64) bool { return w.rnd.Float64() < p }

func (w *World) fault(p float64) bool {
	hit := w.rnd.Float64() < p*w.setup.faults
	return hit && !w.calm
}

// action performs a kind of step. It returns false if there is nothing to do.
type action = draw.Choice[func(*World) bool]

var actions = []action{
	{40, (*World).workEngine},
	{14, (*World).deliverOutcome},
	{10, (*World).clientAsks},
	{6, (*World).clientReads},
	{3, (*World).closeLedger},
	{14, (*World).workFollower},
	{8, (*World).fillDirectory},
	{8, (*World).passTime},
	{6, (*World).writeMarker},
	{4, (*World).coordinate},
	{3, (*World).changeReceiver},
	{8, (*World).workMailer},
	{1, (*World).changeMailServer},
	{1.5, (*World).bootSomething},
	{1, (*World).verify},
	{2, (*World).retain},
	{8, (*World).workStandby},
}

var faults = []action{
	{3, func(w *World) bool { return crashOne(w, w.engines, "crashes of an engine") }},
	{2, func(w *World) bool { return crashOne(w, w.followers, "crashes of a follower") }},
	{1, (*World).crashMailer},
	{2, (*World).crashAll},
	{2, (*World).pause},
	{4, (*World).resume},
	{3, (*World).moveCoordination},
	{2, (*World).moveStandbys},
	{2, (*World).repeatInput},
	{1, (*World).spoilInput},
	{1, (*World).forgetGroup},
	{2, (*World).damageSnapshot},
	{1, (*World).jumpClock},
	{1, (*World).moveLeader},
}

// faultShare is the share of steps that are faults in a run with many faults.
const faultShare = 0.08

// takeStep performs a step. Each step has its own random number generator, so that leaving out a
// step doesn't change the others.
func (w *World) takeStep(i int) {
	w.step = i
	w.rnd = newStepRand(w.seed, i)
	if slices.Contains(w.setup.moves, i) {
		w.move()
		return
	}
	if w.strike(i) {
		return
	}
	if w.chance(w.setup.haste) {
		w.passTime()
		w.log.expire(w.txnIDs, w.steady)
		return
	}
	from := actions
	if w.rnd.Float64() < faultShare*w.setup.faults {
		from = faults
	}
	if !w.act(from) && !w.act(actions) && !w.act(actions) {
		w.passTime()
	}
	w.log.expire(w.txnIDs, w.steady)
}

func newStepRand(seed uint64, step int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(step))) // #nosec G404 -- a run must repeat
}

func (w *World) act(from []action) bool { return draw.ByWeight(w.draw(), from)(w) }

func (w *World) draw() draw.Source { return draw.Source{Rand: w.rnd} }

// mostWaitMillis limits a jump in time. It is slightly longer than the schedule's longest delay.
const mostWaitMillis = 29 * hourMillis

func (w *World) passTime() bool {
	next := w.nextDue()
	var wait int64
	switch draw := w.rnd.IntN(10); {
	case draw < 3:
		wait = w.rnd.Int64N(300)
	case draw < 5:
		wait = w.rnd.Int64N(5 * secondMillis)
	case draw < 6:
		wait = w.rnd.Int64N(60 * secondMillis)
	case draw < 8 && !w.log.busy(): // with an open transaction, that much time would abort it
		wait = w.rnd.Int64N(w.longestWait())
	default:
		wait = next + w.rnd.Int64N(20)
		if next > mostWaitMillis {
			wait = w.rnd.Int64N(60 * secondMillis)
		}
	}
	w.advance(max(wait, 1))
	return true
}

// longestWait returns approximately the longest delay of the schedule.
func (w *World) longestWait() int64 {
	return slices.Max(w.setup.policy.Schedule.WaitsMillis) * 5 / 4
}

// nextDue returns the time until the next timed event in milliseconds.
func (w *World) nextDue() int64 {
	next := int64(math.MaxInt64)
	for _, f := range w.flights {
		next = min(next, f.due-w.steady)
	}
	for _, e := range w.engines {
		next = min(next, e.nextDue())
	}
	for _, f := range w.followers {
		for _, r := range []*routine{&f.live, &f.past} {
			if f.works() && r.backoff > w.steady {
				next = min(next, r.backoff-w.steady)
			}
			if p := r.panel; w.calm && p != nil && r.next != nil && p.due <= w.chain.latest() {
				next = min(next, p.dueAt()-w.steady)
			}
		}
	}
	return max(next, 0)
}

// advance lets time pass. Processes that are alive and not paused send heartbeats.
func (w *World) advance(millis int64) {
	w.steady += millis
	w.latestWall = max(w.latestWall, w.wall())
	for _, p := range w.processes() {
		p.beat(w)
	}
}

type member struct {
	alive, paused bool
	in            bool         // the group has admitted it
	acknowledged  kafka.Moment // time of the last acknowledged heartbeat
}

func (m *member) lives() bool { return m.alive }

func (m *member) works() bool { return m.alive && !m.paused }

func (m *member) beat(w *World) {
	if m.works() && m.in {
		m.acknowledged = w.moment()
	}
}

func (m *member) fresh(w *World) bool { return m.acknowledged.Fresh(w.moment()) }

func (m *member) expelled(w *World) bool {
	silent := w.steady - m.acknowledged.SteadyMillis
	return m.in && silent >= kafka.SessionTimeout.Milliseconds()
}

func (w *World) jumpClock() bool {
	if !w.setup.jumps {
		return false
	}
	w.moveClock(w.rnd.Int64N(12*hourMillis) - 6*hourMillis)
	return true
}

func (w *World) moveClock(jump int64) {
	w.wallOff += jump
	w.setForward += max(jump, 0)
	w.latestWall = max(w.latestWall, w.wall())
	for _, e := range w.engines {
		for _, t := range e.tasks { // each takes a turn within streams.longestWait
			t.wakeAt, t.limited = min(t.wakeAt, w.wall()+secondMillis), nil
		}
	}
	w.note("clock jumps", "the wall clock jumps by %d ms", jump)
}

// writeMarker makes a committed transaction visible in one more partition.
func (w *World) writeMarker() bool {
	ids := w.log.unmarked(w.txnIDs)
	if len(ids) == 0 {
		return false
	}
	id := ids[w.rnd.IntN(len(ids))]
	w.log.markNext(w.log.producers[id])
	w.tracef("a marker of %s", id)
	return true
}

func crashOne[T interface {
	works() bool
	crash()
}](w *World, of []T, what string) bool {
	p, ok := pick(w, workers(of))
	if ok {
		w.count(what)
		p.crash()
	}
	return ok
}

func (w *World) crashAll() bool {
	w.note("kills of everything", "everything is killed")
	w.killEverything()
	return true
}

func (w *World) killEverything() {
	for _, p := range w.processes() {
		if p.lives() {
			p.crash()
		}
	}
	w.clients.restart()
}

type process interface {
	lives() bool
	boot()
	crash()
	beat(w *World)
}

func (w *World) processes() (all []process) {
	for _, e := range w.engines {
		all = append(all, e)
	}
	for _, f := range w.followers {
		all = append(all, f)
	}
	return append(all, w.mailer)
}

func (w *World) bootSomething() bool {
	for _, p := range w.processes() {
		if !p.lives() {
			p.boot()
			return true
		}
	}
	return false
}

// repeatInput appends an earlier input again: a command, or a match that hands over an event. Other
// matches are appended only once, by followers.
func (w *World) repeatInput() bool {
	topic := []string{schemas.TopicCommands, schemas.TopicMatches}[w.rnd.IntN(2)]
	at := topicPartition{topic, w.rnd.Int32N(w.setup.partitions)}
	records, _ := w.log.read(at, 0, math.MaxInt)
	if topic == schemas.TopicMatches {
		records = w.handOvers(records)
	}
	r, ok := pick(w, records)
	if !ok || isDamaged(r) || topic == schemas.TopicCommands && w.clients.old(r) ||
		topic == schemas.TopicMatches && !handsOver(r) {
		return false
	}
	w.log.append(r)
	w.note("repeated inputs", "record %d of %s/%d is appended again", r.Offset, topic, at.partition)
	return true
}

// handOvers returns the handovers among matches, preferably those whose delivery was forgotten,
// because only their number shows that they are repeats.
func (w *World) handOvers(matches []kafka.Record) []kafka.Record {
	var all, forgotten []kafka.Record
	for _, r := range matches {
		if isDamaged(r) {
			continue
		}
		in := decode(r, schemas.DecodePaymentMatched)
		if in.Moved.Number == 0 {
			continue
		}
		all = append(all, r)
		if w.forgot(deliveryID{in.EndpointID, in.Event.ID}) {
			forgotten = append(forgotten, r)
		}
	}
	if len(forgotten) > 0 {
		return forgotten
	}
	return all
}

func handsOver(r kafka.Record) bool {
	return decode(r, schemas.DecodePaymentMatched).Moved.Moves > 0
}

// forgetGroup deletes the group's offsets, for all topics or one of them.
func (w *World) forgetGroup() bool {
	topics := engine.Inputs()
	if w.chance(0.5) {
		topics = topics[w.rnd.IntN(len(topics)):][:1]
	}
	for _, topic := range topics {
		for p := range w.setup.partitions {
			delete(w.log.positions, topicPartition{topic, p})
		}
	}
	w.note("groups that have forgotten", "the group has forgotten %v", topics)
	return true
}

// spoilInput appends an input record again, damaged: truncated, with a changed byte, with another
// key, of an unknown type, or without a value. It must be set aside and have no other effect.
func (w *World) spoilInput() bool {
	topic := []string{schemas.TopicCommands, schemas.TopicMatches}[w.rnd.IntN(2)]
	at := topicPartition{topic, w.rnd.Int32N(w.setup.partitions)}
	entries := w.log.partitions[at].entries
	if len(entries) == 0 {
		return false
	}
	r := entries[w.rnd.IntN(len(entries))].record
	if len(r.Value) < 2 {
		return false
	}
	switch w.rnd.IntN(6) {
	case 0:
		r.Value = r.Value[:1]
	case 1:
		r.Value = append([]byte{0xff}, r.Value...)
	case 2:
		r.Headers = []kafka.Header{
			{Key: schemas.HeaderType, Value: []byte("SomethingNewer")},
			{Key: schemas.HeaderVersion, Value: []byte("1")},
		}
	case 3:
		r.Value = nil
	case 4:
		r.Key = append(slices.Clone(r.Key), 'x')
	case 5:
		r.Value = ofAnother(r)
	}
	r.Headers = append(slices.Clone(r.Headers), kafka.Header{Key: headerDamaged, Value: []byte{1}})
	w.log.append(r)
	w.tracef("record %d of %s/%d is appended again, damaged", r.Offset, topic, at.partition)
	w.count("damaged inputs")
	return true
}

// ofAnother returns the value of a record with a changed byte in its aggregate's name. If there is
// no such name, it truncates the value.
func ofAnother(r kafka.Record) []byte {
	if !bytes.Contains(r.Value, r.Key) {
		return r.Value[:1]
	}
	other := slices.Clone(r.Key)
	other[len(other)-1] ^= 1
	return bytes.ReplaceAll(r.Value, r.Key, other)
}

// headerDamaged marks damaged records, for checkers.
const headerDamaged = "damaged"

func isDamaged(r kafka.Record) bool { return r.Header(headerDamaged) != "" }

// decode decodes an undamaged record.
func decode[T any](r kafka.Record, as func(schemas.Message) (T, error)) T {
	v, err := as(schemas.Read(r.Value, r))
	if err != nil {
		panic(violation{fmt.Sprintf("record %d of %s/%d cannot be read: %v", r.Offset, r.Topic,
			r.Partition, err)})
	}
	return v
}

// pick draws an element. It returns false if there is none.
func pick[T any](w *World, of []T) (T, bool) {
	var none T
	if len(of) == 0 {
		return none, false
	}
	return of[w.rnd.IntN(len(of))], true
}

func workers[T interface{ works() bool }](of []T) []T {
	return slices.DeleteFunc(slices.Clone(of), func(p T) bool { return !p.works() })
}
