package engine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// core is a task on an in-memory log, where every commit succeeds.
type core struct {
	*task.Core[engine.Effect, engine.Outcome]
	t           *testing.T
	disk        *vfs.MemFS
	buffer      uint64 // memtable size of the store, in bytes
	now         int64
	ours        bool
	inFlight    int
	settled     int // settled deliveries that the core remembers; 0: the default
	partitionOf func(string) int32
	unseal      func(sealed []byte, boundTo string) (domain.Secret, error)
	signingKeys func(endpointID string, nowMillis int64) ([]domain.Secret, error)
	journal     []kafka.Record // offsets are indexes
	begins      int64          // the first offset that has not been deleted
	snapshot    []kafka.Record // records in the snapshot topic; nil: there is no topic
	snapshotted int64          // journal offsets between snapshots; 0: the default
	written     []kafka.Record // by the latest turn
	attempts    []domain.Attempt
	done        []func(domain.AttemptResult)
	flights     *engine.Flights
}

func (c *core) Disconnect(string) {}

func (c *core) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	c.attempts, c.done = append(c.attempts, a), append(c.done, done)
}

func newCore(t *testing.T) *core {
	t.Helper()
	c := &core{
		t:        t,
		disk:     vfs.NewCrashableMem(),
		buffer:   1 << 20,
		now:      hour,
		ours:     true,
		inFlight: 8,
	}
	c.partitionOf = func(string) int32 { return 0 }
	c.unseal = func(sealed []byte, _ string) (domain.Secret, error) {
		return domain.Secret(sealed), nil
	}
	c.signingKeys = func(string, int64) ([]domain.Secret, error) { return nil, nil }
	c.open()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// open starts the task in a new process on the existing state.
func (c *core) open() {
	c.t.Helper()
	c.flights = engine.NewFlights(c)
	c.openTask()
}

// openTask starts another task in the same process. It continues from the existing state and the
// journal records after it.
func (c *core) openTask() {
	c.t.Helper()
	if err := c.tryToOpen(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *core) tryToOpen() error {
	cfg := engine.Config{
		Policy:              policy(hour),
		AttemptsInFlight:    c.inFlight,
		AttemptsPerEndpoint: 8,
		RememberedSettled:   c.settled,
		Unseal: func(sealed []byte, boundTo string) (domain.Secret, error) {
			return c.unseal(sealed, boundTo)
		},
		SigningKeys: func(endpointID string, nowMillis int64) ([]domain.Secret, error) {
			return c.signingKeys(endpointID, nowMillis)
		},
		Logger:      slog.New(slog.DiscardHandler),
		PartitionOf: c.partitionOf,
	}
	c.Core = task.NewCore(task.CoreConfig[engine.Effect, engine.Outcome]{
		Journal: schemas.TopicJournal,
		Inputs:  engine.Inputs(),
		Store:   c.store(),
		NewHandler: func() task.Handler[engine.Effect, engine.Outcome] {
			return engine.NewHandler(cfg, c.flights.Inherit(func(o engine.Outcome) { c.Completed(o) }))
		},
		Snapshots: c.snapshots(),
		Logger:    slog.New(slog.DiscardHandler),
	})
	return c.advance()
}

func (c *core) store() store.Config {
	return store.Config{
		Dir:           "state",
		Identity:      "test",
		FS:            c.disk,
		CacheBytes:    1 << 20,
		MemTableBytes: c.buffer,
		Unlogged:      true,
		Logger:        slog.New(slog.DiscardHandler),
	}
}

func (c *core) snapshots() task.SnapshotConfig {
	if c.snapshot == nil {
		return task.SnapshotConfig{}
	}
	cfg := engine.Snapshots(1)
	cfg.Every = c.snapshotted
	return cfg
}

// reopen starts the task in a new process. If lost is set, the state is empty.
func (c *core) reopen(lost bool) {
	c.t.Helper()
	if err := c.Close(); err != nil {
		c.t.Fatal(err)
	}
	if lost {
		c.disk = vfs.NewCrashableMem()
	}
	c.open()
}

// advance performs the core's actions until the state is restored and the core waits for inputs.
func (c *core) advance() error {
	now, end := kafka.Moment{WallMillis: c.now}, int64(len(c.journal))
	for {
		var err error
		switch a := c.Next(now).(type) {
		case task.TakeOver:
			err = c.OpenState()
		case task.LocateJournal:
			err = c.LocatedJournal(c.begins, end)
		case task.ReadJournal:
			err = c.ReadJournal(c.journal[a.From:a.To], a.To)
		case task.Start:
			err = c.Start(now)
		case task.Commit:
			err = c.Committed(c.write(a.Records), now)
		case task.Apply:
			var effects []engine.Effect
			effects, err = c.Apply(now, c.ours)
			for _, e := range effects {
				c.flights.Perform(e)
			}
		case task.LocateInputs:
			_, err = c.LocatedInputs(nil, map[string]int64{
				schemas.TopicCommands: math.MaxInt64,
				schemas.TopicMatches:  math.MaxInt64,
			})
		case task.LocateSnapshots:
			err = c.LocatedSnapshots(0, int64(len(c.snapshot)))
		case task.ReadSnapshots:
			err = c.ReadSnapshots(c.snapshot[a.From:a.To], a.To)
		case task.Await, task.Done:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *core) write(records []kafka.Record) (ends map[string]int64) {
	c.written, ends = records, make(map[string]int64)
	to := map[string]*[]kafka.Record{
		schemas.TopicJournal: &c.journal,
		c.snapshots().Topic:  &c.snapshot,
	}
	for _, r := range records {
		if topic := to[r.Topic]; topic != nil {
			r.Offset = int64(len(*topic))
			*topic = append(*topic, r)
			ends[r.Topic] = r.Offset + 1
		}
	}
	return ends
}

// take runs a turn with input records and returns the resulting facts.
func (c *core) take(records ...kafka.Record) (facts []domain.Fact) {
	c.t.Helper()
	c.written = nil
	for _, r := range records {
		c.Arrived(slices.Index(engine.Inputs(), r.Topic), []kafka.Record{r})
	}
	_, err := c.Decide(kafka.Moment{WallMillis: c.now})
	if err := errors.Join(err, c.advance()); err != nil {
		c.t.Fatalf("the partition stops: %v", err)
	}
	c.written = slices.DeleteFunc(c.written, isNote)
	for _, r := range c.writtenTo(schemas.TopicJournal) {
		f, err := schemas.DecodeFact(schemas.Read(r.Value, r))
		if err != nil {
			c.t.Fatal(err)
		}
		facts = append(facts, f)
	}
	return facts
}

// isNote reports whether a record is one of the task's own notes.
func isNote(r kafka.Record) bool { return r.Header(schemas.HeaderType) == "" }

func (c *core) writtenTo(topic string) []kafka.Record {
	return slices.DeleteFunc(slices.Clone(c.written),
		func(r kafka.Record) bool { return r.Topic != topic })
}

// turn runs a turn with commands and any outcomes that have arrived, and returns the facts.
func (c *core) turn(commands ...domain.Command) []domain.Fact {
	c.t.Helper()
	var records []kafka.Record
	for i, cmd := range commands {
		m := schemas.EncodeCommand(cmd)
		r := kafka.NewRecord(schemas.TopicCommands, cmd.Body.Aggregate(), m.Value, m.EachHeader)
		r.Offset = int64(i)
		records = append(records, r)
	}
	return c.take(records...)
}

func (c *core) pay(endpoint, event string) {
	c.t.Helper()
	m := schemas.EncodePaymentMatched(
		domain.Match{
			EventID: event,
			Type:    domain.PaymentReceived,
			Watch:   domain.Watch{ID: watchID, AccountID: accountID, EndpointID: endpoint},
		},
		domain.Event{ID: event, Type: domain.PaymentReceived, Body: []byte(event)})
	c.take(kafka.NewRecord(schemas.TopicMatches, endpoint, m.Value, m.EachHeader))
}

func creation(endpoint string) domain.Command {
	return domain.Command{ID: "cmd_" + endpoint, AccountID: accountID, Body: domain.CreateEndpoint{
		EndpointID:       endpoint,
		AccountID:        accountID,
		EndpointSettings: domain.EndpointSettings{URL: "https://shop.example"},
		SealedSecret:     []byte(secret),
	}}
}

// A turn has room for only some of the deleted endpoints' deliveries. The rest have no claim and
// must be cancelled in later turns.
func TestWhatManyDeletedEndpointsHaveIsCancelled(t *testing.T) {
	c := newCore(t)
	const endpoints, each = 20, 20
	var removals []domain.Command
	for n := range endpoints {
		endpoint := fmt.Sprintf("ep_%02d", n)
		disable := domain.Command{
			ID:        "cmd_disable_" + endpoint,
			AccountID: accountID,
			Body:      domain.DisableEndpoint{EndpointID: endpoint},
		}
		c.turn(creation(endpoint), disable)
		for i := range each {
			c.pay(endpoint, fmt.Sprintf("evt_%02d_%02d", n, i))
		}
		removals = append(removals, removal(endpoint))
	}
	facts := c.turn(removals...)
	for range endpoints {
		facts = append(facts, c.turn()...)
	}
	cancelled := 0
	for _, f := range facts {
		if _, is := f.Body.(domain.DeliveryCancelled); is {
			cancelled++
		}
	}
	if cancelled != endpoints*each {
		t.Errorf("%d of %d deliveries were cancelled", cancelled, endpoints*each)
	}
}

// A rebuilt state publishes all its rows once more, because the rows in the tables may come from a
// state that did not match the journal.
func TestARebuiltStatePublishesItsRows(t *testing.T) {
	c := newCore(t)
	endpoints := make(map[string]bool)
	for n := range 600 {
		id := fmt.Sprintf("ep_%03d", n)
		endpoints[id] = true
		c.turn(creation(id))
	}
	published := func() (rows int) {
		for range 5 {
			c.turn()
			for _, r := range c.written {
				if r.Topic != schemas.TopicEndpoints || !endpoints[string(r.Key)] {
					t.Errorf("%s of %s", r.Key, r.Topic)
				}
				rows++
			}
		}
		return rows
	}
	if rows := published(); rows != 0 {
		t.Errorf("%d rows were published again", rows)
	}
	c.reopen(true)
	if rows := published(); rows != len(endpoints) {
		t.Errorf("%d of %d rows were published", rows, len(endpoints))
	}
}

// If a version occurs twice, one of the two facts belongs to a turn that was not committed.
// Whichever fact was folded, the state may not match the journal.
func TestAVersionThatComesTwiceEndsTheFold(t *testing.T) {
	c := newCore(t)
	created := c.turn(creation("ep_1"))[0]
	other := created
	other.AtMillis++
	m := schemas.EncodeFact(other)
	c.write([]kafka.Record{
		kafka.NewRecord(schemas.TopicJournal, other.Aggregate, m.Value, m.EachHeader),
	})
	if err := errors.Join(c.Close(), c.tryToOpen()); err == nil ||
		!strings.Contains(err.Error(), "not committed") {
		t.Errorf("it was folded: %v", err)
	}
}

// A test command that is repeated in the same turn as the outcome of its first attempt must not
// trigger the second attempt early (G3). Found by the simulation.
func TestRepeatedTestBesideItsOutcome(t *testing.T) {
	c := newCore(t)
	test := domain.Command{
		ID:        "cmd_test",
		AccountID: accountID,
		BodyHash:  []byte("hash"),
		Body:      domain.TestEndpoint{EndpointID: endpointID},
	}
	c.turn(creation(endpointID), test)
	if len(c.attempts) != 1 {
		t.Fatalf("%d attempts of a test", len(c.attempts))
	}
	c.done[0](domain.AttemptResult{StatusCode: 500})
	c.turn(test)
	if len(c.attempts) != 1 {
		t.Errorf("%d attempts, the last %+v; the schedule has an hour's wait", len(c.attempts),
			c.attempts[len(c.attempts)-1])
	}
}

// If an endpoint is deleted while a test's first attempt is in flight, the test gets one answer
// (G1). A repeat before the attempt ends must not change that. Found by the simulation.
func TestRepeatedTestOfADeletedEndpoint(t *testing.T) {
	c := newCore(t)
	test := domain.Command{
		ID:        "cmd_test",
		AccountID: accountID,
		BodyHash:  []byte("hash"),
		Body:      domain.TestEndpoint{EndpointID: endpointID},
	}
	c.turn(creation(endpointID), test)
	facts := c.turn(domain.Command{
		ID:        "cmd_delete",
		AccountID: accountID,
		Body:      domain.DeleteEndpoint{EndpointID: endpointID},
	}, test)
	c.done[0](domain.AttemptResult{StatusCode: 200})
	for range 3 {
		facts = append(facts, c.turn(test)...)
	}
	answers := 0
	for _, f := range facts {
		if handled, ok := f.Body.(domain.CommandHandled); ok && handled.CommandID == "cmd_test" {
			answers++
		}
	}
	if answers != 1 {
		t.Errorf("the test was answered %d times", answers)
	}
}

// If the endpoint is disabled before a test is sent, the test gets an answer and is never sent. A
// repeated command gets the same answer. This holds whether the test was about to be sent or waited
// for the limit on all attempts.
func TestATestOfAnEndpointThatIsDisabledBeforehandIsAnswered(t *testing.T) {
	test := domain.Command{
		ID:        "cmd_test",
		AccountID: accountID,
		BodyHash:  []byte("hash"),
		Body:      domain.TestEndpoint{EndpointID: endpointID},
	}
	disable := domain.Command{
		ID:        "cmd_off",
		AccountID: accountID,
		Body:      domain.DisableEndpoint{EndpointID: endpointID},
	}
	enable := domain.Command{
		ID:        "cmd_on",
		AccountID: accountID,
		Body:      domain.EnableEndpoint{EndpointID: endpointID},
	}
	for name, busy := range map[string]bool{"in its turn": false, "while all places are taken": true} {
		t.Run(name, func(t *testing.T) {
			c := newCore(t)
			c.turn(creation(endpointID))
			turns := [][]domain.Command{{test, disable}, nil, nil, {enable}, {test}}
			if busy {
				c.turn(creation("ep_busy"))
				for n := range c.inFlight {
					c.turn(domain.Command{
						ID:        fmt.Sprint("cmd_", n),
						AccountID: accountID,
						Body:      domain.TestEndpoint{EndpointID: "ep_busy"},
					})
				}
				turns = [][]domain.Command{{test}, {disable}, nil, nil, {enable}, {test}}
			}
			before, codes := len(c.attempts), []string{}
			for _, commands := range turns {
				for _, f := range c.turn(commands...) {
					if handled, ok := f.Body.(domain.CommandHandled); ok && handled.CommandID == test.ID {
						codes = append(codes, handled.Answer.Rejection.Code)
					}
				}
			}
			if !slices.Equal(codes, []string{domain.CodeEndpointDisabled}) {
				t.Errorf("the test was answered %q", codes)
			}
			if len(c.attempts) != before {
				t.Errorf("it was sent after its answer: %+v", c.attempts[before:])
			}
		})
	}
}

// Deliveries of a later epoch can be waitlisted as probing. When their receiver has answered, they
// must not keep waiting for other probing endpoints (G6). Found by the simulation.
func TestAnAnswerEndsTheWaitAmongTheProbing(t *testing.T) {
	c := newCore(t)
	const other = "ep_00000000000000000000000002"
	c.ours = false // nothing starts yet
	for _, id := range []string{endpointID, other} {
		c.turn(creation(id))
	}
	c.pay(endpointID, "evt_before")
	c.turn(domain.Command{
		ID:        "cmd_disable",
		AccountID: accountID,
		Body:      domain.DisableEndpoint{EndpointID: endpointID},
	},
		domain.Command{
			ID:        "cmd_enable",
			AccountID: accountID,
			Body:      domain.EnableEndpoint{EndpointID: endpointID},
		})
	c.pay(other, "evt_probing")
	c.now++
	c.pay(endpointID, "evt_after")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c.ours, c.inFlight = true, 2 // one of the two places is for probing endpoints
	c.open()
	if len(c.attempts) != 1 || c.attempts[0].EventID != "evt_before" {
		t.Fatalf("attempts %+v", c.attempts)
	}
	c.done[0](domain.AttemptResult{StatusCode: 200})
	c.turn()
	if events := c.attempted(); !slices.Contains(events, "evt_after") {
		t.Errorf("%v were attempted, and evt_after waits though its receiver answers", events)
	}
}

func (c *core) attempted() (events []string) {
	for _, a := range c.attempts {
		events = append(events, a.EventID)
	}
	return events
}

// Waitlisted groups that no longer need a place must not keep it from a group that arrives in the
// same turn (G6). Found by the simulation.
func TestGroupsThatNeedNoPlaceKeepNone(t *testing.T) {
	c := newCore(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c.inFlight = 2 // one of the two places is for probing endpoints
	c.open()
	endpoints := []string{
		endpointID, "ep_00000000000000000000000002", "ep_00000000000000000000000003",
		"ep_00000000000000000000000004",
	}
	for _, id := range endpoints {
		c.turn(creation(id))
	}
	for i, id := range endpoints[:3] {
		c.pay(id, "evt_"+strconv.Itoa(i))
	}
	for _, id := range endpoints[1:3] {
		c.turn(domain.Command{
			ID:        "cmd_disable_" + id,
			AccountID: accountID,
			Body:      domain.DisableEndpoint{EndpointID: id},
		})
	}
	c.done[0](domain.AttemptResult{StatusCode: 500})
	c.pay(endpoints[3], "evt_last")
	if events := c.attempted(); !slices.Equal(events, []string{"evt_0", "evt_last"}) {
		t.Errorf("attempted %v", events)
	}
}

// answerAll gives every attempt in flight the same result. It returns how many attempts ended and
// how many began as a consequence.
func (c *core) answerAll(r domain.AttemptResult) (ended, begun int) {
	c.t.Helper()
	ended = len(c.done)
	for _, done := range c.done {
		done(r)
	}
	c.done = nil
	c.turn()
	return ended, len(c.done)
}

// Pending deliveries resume as soon as an endpoint is enabled. However many there are and however
// large the window was, they start with one attempt and grow as the receiver answers.
func TestEnablingBeginsWithOneAttempt(t *testing.T) {
	c := newCore(t)
	c.turn(creation(endpointID))
	for n := range 12 { // the window opens
		c.pay(endpointID, "evt_before_"+strconv.Itoa(n))
	}
	most := 0
	for ended := -1; ended != 0; most = max(most, ended) {
		ended, _ = c.answerAll(domain.AttemptResult{StatusCode: 200})
	}
	if most < 4 {
		t.Fatalf("at most %d attempts were under way: this test holds nothing", most)
	}
	c.turn(domain.Command{
		ID:        "cmd_disable",
		AccountID: accountID,
		Body:      domain.DisableEndpoint{EndpointID: endpointID},
	})
	for n := range 12 {
		c.pay(endpointID, "evt_held_"+strconv.Itoa(n))
	}
	if len(c.done) != 0 {
		t.Fatalf("%d attempts to a disabled endpoint", len(c.done))
	}
	c.turn(domain.Command{
		ID:        "cmd_enable",
		AccountID: accountID,
		Body:      domain.EnableEndpoint{EndpointID: endpointID},
	})
	if len(c.done) != 1 {
		t.Errorf("%d attempts begin when the endpoint is enabled, not one", len(c.done))
	}
	sent := 0
	for {
		ended, begun := c.answerAll(domain.AttemptResult{StatusCode: 200})
		if ended == 0 {
			break
		}
		if sent += ended; begun > ended+1 && begun > 2*ended {
			t.Errorf("after %d answers %d attempts begin", ended, begun)
		}
	}
	if sent != 12 {
		t.Errorf("%d of 12 were sent", sent)
	}
}

// A sealed value opens only for the endpoint or header that it is bound to, even if it was opened
// there just before. The engine opens a resealed value again.
func TestASealOpensWhereItBelongs(t *testing.T) {
	c := newCore(t)
	asked := 0
	c.unseal = func(sealed []byte, boundTo string) (domain.Secret, error) {
		asked++
		plain, ok := strings.CutPrefix(string(sealed), boundTo+"|")
		if !ok {
			return "", errors.New("it was sealed for something else")
		}
		return domain.Secret(plain), nil
	}
	sealed := func(endpoint, secret string, headers ...domain.Header) domain.Command {
		cmd := creation(endpoint)
		body := cmd.Body.(domain.CreateEndpoint)
		body.SealedSecret, body.Headers = []byte(secret), headers
		cmd.Body = body
		return cmd
	}
	token := domain.Header{Name: "Authorization", Sealed: []byte("ep_1 Authorization|token")}
	c.turn(sealed("ep_1", "ep_1|first", token), sealed("ep_2", "ep_1|first"),
		sealed("ep_3", "ep_3|third", token),
		sealed("ep_4", "ep_4|fourth", domain.Header{Name: "X-Other", Sealed: token.Sealed}))
	for n, id := range []string{"ep_1", "ep_2", "ep_3", "ep_4"} {
		c.pay(id, "evt_"+strconv.Itoa(n))
	}
	if len(c.attempts) != 1 || c.attempts[0].EndpointID != "ep_1" ||
		!slices.Equal(c.attempts[0].Secrets, []domain.Secret{"first"}) ||
		!slices.Equal(c.attempts[0].Headers,
			[]domain.SentHeader{{Name: "Authorization", Value: "token"}}) {
		t.Fatalf("attempts %+v", c.attempts)
	}
	before := asked
	c.pay("ep_1", "evt_again")
	if len(c.attempts) != 2 || asked != before {
		t.Errorf("%d attempts, %d openings", len(c.attempts), asked-before)
	}
	c.turn(domain.Command{
		ID:        "cmd_reseal",
		AccountID: accountID,
		Body: domain.ResealSecrets{
			EndpointID: "ep_2",
			Values:     []domain.Resealed{{Was: []byte("ep_1|first"), Sealed: []byte("ep_2|second")}},
		},
	})
	c.now += hour
	c.turn()
	if last := c.attempts[len(c.attempts)-1]; len(c.attempts) != 3 || last.EndpointID != "ep_2" ||
		!slices.Equal(last.Secrets, []domain.Secret{"second"}) {
		t.Errorf("attempts %+v", c.attempts)
	}
}

// An endpoint that asks for a signature by the deployment's keys waits until there is a key, and
// other endpoints do not wait for it. The endpoint's choice survives a restart and the loss of the
// state.
func TestAttemptsCarryTheSignaturesThatAreAskedFor(t *testing.T) {
	c := newCore(t)
	asking := func(endpoint string, asked domain.Signatures) domain.Command {
		cmd := creation(endpoint)
		body := cmd.Body.(domain.CreateEndpoint)
		body.Signatures = asked
		cmd.Body = body
		return cmd
	}
	both := domain.StandardWebhooks | domain.StandardWebhooksEd25519
	c.turn(asking("ep_1", 0), asking("ep_2", domain.StandardWebhooks), asking("ep_3", both))
	c.reopen(true)
	for n, id := range []string{"ep_1", "ep_2", "ep_3"} {
		c.pay(id, "evt_"+strconv.Itoa(n))
	}
	if len(c.attempts) != 2 || c.attempts[0].Signatures != 0 || c.attempts[0].SigningKeys != nil ||
		c.attempts[1].Signatures != domain.StandardWebhooks || c.attempts[1].SigningKeys != nil {
		t.Fatalf("without a key: attempts %+v", c.attempts)
	}
	c.signingKeys = func(string, int64) ([]domain.Secret, error) {
		return nil, errors.New("it does not open")
	}
	c.now += hour
	c.turn()
	if len(c.attempts) != 2 {
		t.Fatalf("with a key that does not open: attempts %+v", c.attempts)
	}
	c.signingKeys = func(endpointID string, at int64) ([]domain.Secret, error) {
		return []domain.Secret{domain.Secret(endpointID + strconv.FormatInt(at, 10))}, nil
	}
	c.now += hour
	c.turn()
	last := c.attempts[len(c.attempts)-1]
	now := domain.Secret("ep_3" + strconv.FormatInt(c.now, 10))
	if len(c.attempts) != 3 || last.EndpointID != "ep_3" || last.Signatures != both ||
		!slices.Equal(last.SigningKeys, []domain.Secret{now}) {
		t.Errorf("with a key: attempts %+v", c.attempts)
	}
}

// Some deliveries wait for a rate limit or for a secret that cannot be opened yet. After the clock
// is set back, they and new deliveries to the endpoint must not wait longer than that interval.
func TestAClockThatIsSetBackHoldsNothingUp(t *testing.T) {
	ok := domain.AttemptResult{StatusCode: 200}
	for name, c := range map[string]struct {
		create     func(*domain.CreateEndpoint)
		waitMillis int64
		before     int // attempts before the clock is set back
	}{
		"a rate limit": {func(e *domain.CreateEndpoint) { e.RateLimitPerSecond = 1 }, 1000, 1},
		"a secret": {
			func(e *domain.CreateEndpoint) { e.SealedSecret = []byte("lost") }, 30_000, 0,
		},
		"nothing but a turn": {func(*domain.CreateEndpoint) {}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			k := newCore(t)
			lost := true
			k.unseal = func(sealed []byte, _ string) (domain.Secret, error) {
				if lost && string(sealed) == "lost" {
					return "", errors.New("another key sealed it")
				}
				return domain.Secret(sealed), nil
			}
			body := creation(endpointID)
			create := body.Body.(domain.CreateEndpoint)
			c.create(&create)
			body.Body = create
			k.turn(body)
			k.now += 1000 // no attempt begins in the first second of a task
			k.pay(endpointID, "evt_1")
			k.answerAll(ok)
			k.pay(endpointID, "evt_2")
			k.answerAll(ok)
			if len(k.attempts) != c.before {
				t.Fatalf("%d attempts before the clock is set back", len(k.attempts))
			}
			k.now -= hour / 2
			k.turn()
			lost = false
			k.pay(endpointID, "evt_3")
			k.answerAll(ok)
			k.now += c.waitMillis
			k.turn()
			k.answerAll(ok)
			if !slices.Contains(k.attempted(), "evt_3") {
				t.Errorf("what came after the clock was set back waits for more than %d ms", c.waitMillis)
			}
			k.now += hour / 2 // earlier due times are reached only now
			for k.turn(); len(k.attempts) < 3; k.turn() {
				k.answerAll(ok)
				if k.now += 1000; k.now > 3*hour {
					t.Fatal("what was due before is not sent")
				}
			}
		})
	}
}

// A fast success widens the window, and timeouts and 5xx responses shrink it. Results that say
// nothing about the receiver's capacity leave it unchanged.
func TestHowAReceiverDoesMovesItsWindow(t *testing.T) {
	for name, c := range map[string]struct {
		answer domain.AttemptResult
		// attempts that begin after one such answer while four are in flight
		begun int
	}{
		"quick":         {domain.AttemptResult{StatusCode: 200, DurationMillis: 1999}, 2},
		"slow":          {domain.AttemptResult{StatusCode: 200, DurationMillis: 2000}, 1},
		"404":           {domain.AttemptResult{StatusCode: 404}, 1},
		"429":           {domain.AttemptResult{StatusCode: 429}, 1},
		"500":           {domain.AttemptResult{StatusCode: 500}, 0},
		"503":           {domain.AttemptResult{StatusCode: 503}, 0},
		"no answer":     {domain.AttemptResult{Error: domain.AttemptTimeout}, 0},
		"no connection": {domain.AttemptResult{Error: domain.AttemptConnRefused}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			task := newCore(t)
			if err := task.Close(); err != nil {
				t.Fatal(err)
			}
			task.inFlight = 100 // enough places for probing endpoints
			task.open()
			task.turn(creation(endpointID))
			for n := range 20 {
				task.pay(endpointID, "evt_"+strconv.Itoa(n))
			}
			if _, begun := task.answerAll(domain.AttemptResult{StatusCode: 200}); begun != 4 {
				t.Fatalf("%d attempts after the first two have succeeded", begun)
			}
			before := len(task.attempts)
			task.done[0](c.answer)
			task.turn()
			if begun := len(task.attempts) - before; begun != c.begun {
				t.Errorf("%d attempts begin, not %d", begun, c.begun)
			}
		})
	}
}
