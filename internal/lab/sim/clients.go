package sim

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/lab/draw"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

type clients struct {
	world     *World
	commands  []*issued
	byID      map[string]*issued
	endpoints []string
	watches   []string
	keys      []string
	from      map[topicPartition]int64 // positions in the results
}

type issued struct {
	domain.Command
	atMillis int64 // by the wall clock
	asks     int   // repeats without an answer
	unsure   bool  // requested with a history that did not know that the event had moved
	answer   *domain.Result
	lost     bool // a disaster destroyed the effect after the answer
}

// isToldWhere reports whether the command is a resend, and each of its records says where the event
// went.
func (cmd *issued) isToldWhere() bool {
	_, resends := cmd.Body.(domain.ResendEvent)
	return resends && !cmd.unsure
}

// account owns the objects that the clients create. For stranger, another account, they must not
// exist.
var (
	account  = domain.DeriveID(domain.AccountPrefix, "holder")
	stranger = domain.DeriveID(domain.AccountPrefix, "stranger")
)

func newClients(w *World) *clients {
	return &clients{world: w, byID: make(map[string]*issued), from: make(map[topicPartition]int64)}
}

// restart models the API after a kill: it reads results from their ends, and waiting clients learn
// that the outcome is unknown.
func (c *clients) restart() {
	for p := range c.world.setup.partitions {
		at := topicPartition{schemas.TopicResults, p}
		c.from[at] = c.world.log.end(at)
	}
}

// repeatsForMillis is for how long clients repeat a command. It is a bit less than the guaranteed
// 24 hours.
const repeatsForMillis = 20 * hourMillis

// old reports whether a command is too old to be repeated, according to a wall clock that may have
// jumped.
func (c *clients) old(r kafka.Record) bool {
	cmd := decode(r, schemas.DecodeCommand)
	if _, answers := cmd.Body.(domain.RecordMail); answers {
		return false // its repeat is part of its notice
	}
	return c.tooOld(c.byID[cmd.ID])
}

func (c *clients) tooOld(cmd *issued) bool {
	w := c.world
	return abs(w.wall()-cmd.atMillis) > repeatsForMillis ||
		w.latestWall-cmd.atMillis > rememberMillis-repeatsForMillis
}

func (c *clients) waits(cmd *issued) bool { return cmd.asks > 0 && !c.tooOld(cmd) }

func abs(n int64) int64 { return max(n, -n) }

// clientAsks issues a command: a new one, one without an answer, or one that was already answered.
func (w *World) clientAsks() bool {
	c := w.clients
	if w.chance(0.3) {
		if cmd, ok := pick(w, c.commands); ok {
			return c.again(cmd)
		}
	}
	body, ok := c.newBody()
	if ok {
		c.ask(c.issue(body))
	}
	return ok
}

func (c *clients) issue(body domain.CommandBody) *issued {
	w := c.world
	n := fmt.Sprint(len(c.commands))
	hash := sha256.Sum256([]byte(n))
	cmd := &issued{Command: domain.Command{
		ID:             domain.DeriveID(domain.CommandPrefix, n),
		AccountID:      account,
		BodyHash:       hash[:],
		IssuedAtMillis: w.wall(),
		Body:           body,
	}, atMillis: w.wall()}
	if w.rnd.IntN(20) == 0 && !w.calm {
		cmd.AccountID = stranger
	}
	c.commands = append(c.commands, cmd)
	c.byID[cmd.ID] = cmd
	return cmd
}

// again repeats a command, sometimes with a different body under the same id.
func (c *clients) again(cmd *issued) bool {
	w := c.world
	if c.tooOld(cmd) {
		return false
	}
	w.count("repeated commands")
	if cmd.answer != nil && w.chance(0.2) {
		other := *cmd
		other.BodyHash = append([]byte("another"), cmd.BodyHash[7:]...)
		c.append(&other)
		cmd.asks++
		return true
	}
	c.ask(cmd)
	return true
}

// ask appends a command. The append may silently fail or happen twice.
func (c *clients) ask(cmd *issued) {
	w := c.world
	cmd.asks++
	switch {
	case w.fault(0.05):
		w.tracef("%s %s does not reach the log", cmd.Body.CommandType(), short(cmd.ID))
		w.count("commands lost before the log")
		return
	case w.fault(0.05):
		c.append(cmd)
		w.count("commands appended twice")
	}
	c.append(cmd)
}

func (c *clients) append(cmd *issued) {
	w := c.world
	if body, is := cmd.Body.(domain.ResendEvent); is { // the API reads the history each time
		body.Remembered = w.history(deliveryID{body.EndpointID, body.EventID})
		cmd.Body = body
		if of := c.byID[cmd.ID]; body.Remembered.Delivery.MovedTo == "" {
			of.unsure = true
		}
	}
	m := schemas.EncodeCommand(cmd.Command)
	w.log.append(kafka.NewRecord(schemas.TopicCommands, cmd.Body.Aggregate(), m.Value, m.EachHeader))
	w.tracef("%s %s asks %s", cmd.Body.CommandType(), short(cmd.ID), short(cmd.Body.Aggregate()))
	w.count("commands")
}

// tellFor records the commands of a follower, which doesn't wait for answers.
func (c *clients) tellFor(records []kafka.Record) {
	for _, r := range records {
		if r.Topic != schemas.TopicCommands {
			continue
		}
		cmd := decode(r, schemas.DecodeCommand)
		if c.byID[cmd.ID] == nil {
			c.byID[cmd.ID] = &issued{Command: cmd, atMillis: c.world.wall()}
		}
	}
}

func (c *clients) newBody() (domain.CommandBody, bool) {
	w := c.world
	if len(c.commands) == 0 {
		return domain.CreateAccount{AccountID: account, Email: "holder@shop.example", Key: c.key()}, true
	}
	if len(c.endpoints) < 2 || len(c.endpoints) < w.setup.endpoints && w.chance(0.1) {
		return c.newEndpoint(), true
	}
	if len(c.watches) < 2 || len(c.watches) < w.setup.watches && w.chance(0.07) {
		return c.newWatch()
	}
	switch draw := w.rnd.IntN(20); {
	case draw < 1:
		return domain.CreateKey{AccountID: account, Key: c.key()}, true
	case draw < 2:
		old := c.keys[w.rnd.IntN(len(c.keys))]
		return domain.RollKey{
			AccountID:   account,
			KeyID:       old,
			Key:         c.key(),
			GraceMillis: w.rnd.Int64N(hourMillis),
		}, true
	case draw < 3:
		return domain.RevokeKey{AccountID: account, KeyID: c.keys[w.rnd.IntN(len(c.keys))]}, true
	case draw < 6:
		return c.watchChange(), true
	case draw < 8:
		return c.pastOf(), true
	}
	return c.endpointCommand()
}

func (c *clients) key() domain.Key {
	id := domain.DeriveID(domain.KeyPrefix, fmt.Sprint(len(c.keys)))
	c.keys = append(c.keys, id)
	return domain.Key{ID: id, Name: id, Hash: []byte(id), Permissions: domain.Permissions()}
}

var orderings = []domain.Ordering{
	domain.OrderingNone, domain.OrderingWallet, domain.OrderingWallet,
}

func (c *clients) ordering(n int) domain.Ordering {
	if !c.world.setup.options {
		return domain.OrderingNone
	}
	return orderings[n%len(orderings)]
}

func (c *clients) noticesTo() string {
	if !c.world.setup.notices || len(c.endpoints) < 2 {
		return ""
	}
	id := c.endpoints[len(c.endpoints)-2]
	if !c.world.checks.model.endpoints[id].Exists() {
		return ""
	}
	return id
}

func (c *clients) newEndpoint() domain.CommandBody {
	n := fmt.Sprint(len(c.endpoints))
	id := domain.DeriveID(domain.EndpointPrefix, n)
	c.endpoints = append(c.endpoints, id)
	if c.world.chance(c.world.setup.spoiled) {
		c.world.receivers[id] = behaviours[c.world.rnd.IntN(len(behaviours))]
	}
	limit := 0
	if c.world.chance(0.2) {
		limit = 1 + c.world.rnd.IntN(4)
	}
	return domain.CreateEndpoint{
		EndpointID: id,
		AccountID:  account,
		EndpointSettings: domain.EndpointSettings{
			URL:                "https://shop.example/" + n,
			RateLimitPerSecond: limit,
			Signatures:         domain.Signatures(len(c.endpoints) % 4),
			Ordering:           c.ordering(len(c.endpoints)),
			NoticesTo:          c.noticesTo(),
		},
		SealedSecret: []byte("secret-" + n),
	}
}

// newWatch creates a watch with an endpoint whose creation was acknowledged, as the API does.
func (c *clients) newWatch() (domain.CommandBody, bool) {
	w := c.world
	endpoint, ok := pick(w, c.knownEndpoints())
	if !ok {
		return nil, false
	}
	id := domain.DeriveID(domain.WatchPrefix, fmt.Sprint(len(c.watches)))
	c.watches = append(c.watches, id)
	once, expiry := c.invoice(len(c.watches))
	rules, types := c.rules(once)
	return domain.CreateWatch{Watch: domain.Watch{
		ID:            id,
		AccountID:     account,
		WalletAddress: wallet(w.rnd.IntN(wallets)),
		Label:         "till",
		EndpointID:    endpoint,
		EventTypes:    types,
		Rules:         rules,

		Once:            once,
		ExpiresAtMillis: expiry,
	}}, true
}

func (c *clients) invoice(n int) (once bool, expiresAtMillis int64) {
	if !c.world.setup.invoices {
		return false, 0
	}
	return n%3 > 0, c.expiry(n)
}

func (c *clients) expiry(n int) int64 {
	if n%2 == 0 {
		return 0
	}
	return c.world.wall() + int64(1+n%7)*600*secondMillis
}

func (c *clients) rules(once bool) (domain.Rules, []domain.EventType) {
	w := c.world
	r := *draw.Anything()
	if w.chance(0.4) {
		r = *w.draw().Rules()
	}
	if w.chance(0.5) {
		r.Assets = []string{assets[1].Code}
	}
	if once {
		r.Types = r.Types[:1]
	}
	rules := domain.Rules{
		Assets: assets[:1+len(r.Assets)],
		Amount: domain.AmountRule{Kind: domain.AmountKind(r.Amount), AmountStroops: r.Low},
		Memo:   domain.MemoRule{Kind: domain.MemoKind(r.MemoIs)},
	}
	if r.Amount == "range" {
		rules.Amount = domain.AmountRule{Kind: domain.AmountRange, MinStroops: r.Low, MaxStroops: r.High}
	}
	if r.MemoIs == "equals" {
		rules.Memo.Value = memoOf(r.Memo)
	}
	for _, n := range r.Senders {
		rules.SenderAllowlist = append(rules.SenderAllowlist, payer(n))
	}
	var types []domain.EventType
	for _, kind := range r.Types {
		types = append(types, domain.EventType(kind))
	}
	w.checks.judged.drawn[fmt.Sprint(rules, types)] = r
	return rules, types
}

// knownEndpoints returns existing endpoints, sometimes including ones that were deleted.
func (c *clients) knownEndpoints() []string {
	late := c.world.chance(0.05)
	return slices.DeleteFunc(slices.Clone(c.endpoints), func(id string) bool {
		e := c.world.checks.model.endpoints[id]
		return !e.Exists() || e.Deleted() && !late
	})
}

func (c *clients) watchChange() domain.CommandBody {
	w := c.world
	id := c.watches[w.rnd.IntN(len(c.watches))]
	if w.chance(0.03) {
		return domain.DeleteWatch{WatchID: id}
	}
	label := fmt.Sprint("till ", w.rnd.IntN(3))
	rules, types := c.rules(w.checks.model.watches[id].Once)
	change := domain.WatchChange{
		Label:           &label,
		Assets:          &rules.Assets,
		Amount:          &rules.Amount,
		Memo:            &rules.Memo,
		SenderAllowlist: &rules.SenderAllowlist,
		EventTypes:      &types,
	}
	if w.setup.invoices && w.rnd.IntN(3) == 0 {
		change.ExpiresAtMillis = new(c.expiry(w.rnd.IntN(10)))
	}
	if endpoint, ok := pick(w, c.knownEndpoints()); ok && w.chance(0.5) {
		change.EndpointID = &endpoint
	}
	return domain.UpdateWatch{
		WatchID:    id,
		Change:     change,
		IfRevision: c.revision(w.checks.model.watches[id].Revision),
	}
}

// pastOf requests a backfill of arbitrary ledgers, including some that have not closed yet.
func (c *clients) pastOf() domain.CommandBody {
	w := c.world
	last := int(w.chain.latest()) + 2
	id := c.watches[w.rnd.IntN(len(c.watches))]
	if live := w.checks.model.watches[id].LiveSince; live != 0 && w.chance(0.8) {
		last = int(live)
	}
	body := domain.BackfillWatch{WatchID: id, From: 1 + uint32(w.rnd.IntN(last))}
	if w.chance(0.5) {
		body.To = body.From + uint32(w.rnd.IntN(12))
	}
	return body
}

// revision returns the If-Match of a client that has read an object: none, the current one, or an
// older one.
func (c *clients) revision(current uint64) uint64 {
	switch c.world.rnd.IntN(6) {
	case 0:
		return current
	case 1:
		return max(current, 2) - 1
	}
	return 0
}

func (c *clients) endpointCommand() (domain.CommandBody, bool) {
	w := c.world
	id := c.endpoints[w.rnd.IntN(len(c.endpoints))]
	revision := c.revision(w.checks.model.endpoints[id].Revision)
	if w.setup.returns && w.chance(0.1) {
		return domain.DeleteEndpoint{EndpointID: id, IfRevision: revision}, true
	}
	switch draw := w.rnd.IntN(126); {
	case draw < 16:
		change := domain.EndpointChange{}
		if w.chance(0.3) {
			rate := w.rnd.IntN(5)
			change.RateLimitPerSecond, change.Ordering = &rate, new(c.ordering(rate))
			change.Signatures = new(domain.Signatures(rate % 4))
		} else {
			change.URL = new(fmt.Sprintf("https://shop.example/%s/%d", id, w.rnd.IntN(4)))
		}
		return domain.UpdateEndpoint{EndpointID: id, IfRevision: revision, Change: change}, true
	case draw < 26:
		if w.chance(0.5) { // the tested endpoint may be disabled in the same turn
			c.ask(c.issue(domain.TestEndpoint{EndpointID: id}))
		}
		return domain.DisableEndpoint{EndpointID: id, IfRevision: revision}, true
	case draw < 52:
		return domain.EnableEndpoint{EndpointID: id, IfRevision: revision}, true
	case draw < 55:
		return domain.DeleteEndpoint{EndpointID: id, IfRevision: revision}, true
	case draw < 68:
		return domain.RotateSecret{
			EndpointID:   id,
			SealedSecret: fmt.Appendf(nil, "secret-%d", len(c.commands)),
		}, true
	case draw < 80:
		return domain.TestEndpoint{EndpointID: id}, true
	case draw < 94:
		return c.replay(id), true
	case draw < 100:
		return c.reseal(id), true
	}
	return c.resend()
}

// resend resends any delivery with the endpoint that its watch names, as the API does. If that
// endpoint was deleted, the watch often gets another one first.
func (c *clients) resend() (domain.CommandBody, bool) {
	w := c.world
	m := w.checks.model
	d, ok := pick(w, m.created)
	if cancelled, is := pick(w, c.cancelled()); is && w.chance(0.6) {
		d = cancelled
	}
	if some := c.forgotten(); len(some) > 0 && w.chance(0.5) {
		d = some[w.rnd.IntN(len(some))]
		if w.chance(0.5) { // a history that is behind may lack later facts
			d = some[len(some)-1]
		}
		if left, is := pick(w, c.gone(some)); is && w.chance(0.6) {
			d = left
		}
	}
	if w.setup.returns {
		neverMoved := func(id deliveryID) bool { return m.deliveries[id].Moves == 0 }
		if moved, is := pick(w, slices.DeleteFunc(c.cancelled(), neverMoved)); is {
			d = moved
		}
	}
	watch, e := c.named(m.deliveries[d].WatchID)
	living, is := pick(w, c.knownEndpoints())
	if is && watch.Exists() && e.Deleted() && w.chance(0.5) {
		moved := domain.WatchChange{EndpointID: &living}
		return domain.UpdateWatch{WatchID: watch.ID, Change: moved}, true
	}
	body := domain.ResendEvent{EndpointID: d.endpoint, EventID: d.event}
	if e.ID != d.endpoint && (!e.Deleted() || w.chance(0.1)) {
		body.ToEndpointID = e.ID
	}
	if of := w.checks.reference.deliveries[d]; of != nil {
		left, is := pick(w, of.former)
		if is && w.chance(0.7) { // from a table that is behind
			body.ToEndpointID = left
		}
	}
	return body, ok
}

func (c *clients) named(watchID string) (domain.Watch, domain.Endpoint) {
	m := c.world.checks.model
	watch := m.watches[watchID]
	if !watch.Exists() || watch.Deleted() {
		return domain.Watch{}, domain.Endpoint{}
	}
	return watch, m.endpoints[watch.EndpointID]
}

// cancelled returns deliveries whose events may continue at another endpoint.
func (c *clients) cancelled() (some []deliveryID) {
	m := c.world.checks.model
	for _, id := range m.created {
		d := m.deliveries[id]
		if d.State == domain.StateCancelled && d.WatchID != "" && d.MovedTo == "" {
			some = append(some, id)
		}
	}
	return some
}

// gone returns the deliveries whose events have moved to another endpoint.
func (c *clients) gone(some []deliveryID) []deliveryID {
	return slices.DeleteFunc(slices.Clone(some), func(id deliveryID) bool {
		return c.world.checks.reference.deliveries[id].next == ""
	})
}

// forgotten returns the deliveries that only the history still has, in the order in which they
// settled.
func (c *clients) forgotten() (some []deliveryID) {
	seen := make(map[deliveryID]bool)
	for _, entry := range slices.Backward(c.world.checks.model.settled) {
		if id := entry.deliveryID; !seen[id] && c.world.forgot(id) {
			some = append(some, id)
		}
		seen[entry.deliveryID] = true
	}
	slices.Reverse(some)
	return some
}

// replay requests a time range. Its bounds are often the exact time of a delivery.
func (c *clients) replay(endpoint string) domain.CommandBody {
	w := c.world
	var failed []int64
	var chosen []string
	for _, id := range w.checks.model.created {
		d := w.checks.model.deliveries[id]
		if id.endpoint == endpoint && d.State == domain.StateFailed {
			failed = append(failed, d.CreatedAtMillis)
		}
		// With any outcome.
		if w.setup.options && id.endpoint == endpoint && len(chosen) < 8 && w.chance(0.3) {
			chosen = append(chosen, id.event)
		}
	}
	if w.setup.options && w.chance(0.3) {
		return domain.ReplayEvents{EndpointID: endpoint, EventIDs: chosen, Matched: len(chosen)}
	}
	instant := func(otherwise int64) int64 {
		if at, ok := pick(w, failed); ok && w.chance(0.7) {
			return at
		}
		return otherwise
	}
	body := domain.ReplayEndpoint{
		EndpointID:  endpoint,
		SinceMillis: instant(w.wall() - w.rnd.Int64N(50*hourMillis)),
	}
	if w.chance(0.5) {
		body.UntilMillis = max(body.SinceMillis+1, instant(body.SinceMillis+w.rnd.Int64N(20*hourMillis)))
	}
	return body
}

// reseal requests resealing of sealed values, both current and long replaced ones.
func (c *clients) reseal(id string) domain.CommandBody {
	body := domain.ResealSecrets{
		EndpointID: id,
		Values:     []domain.Resealed{{Was: []byte("secret-0"), Sealed: []byte("stale")}},
	}
	for n, s := range c.world.checks.model.endpoints[id].Secrets {
		body.Values = append(body.Values,
			domain.Resealed{Was: s.Sealed, Sealed: fmt.Appendf(nil, "resealed-%d-%d", len(c.commands), n)})
	}
	return body
}

func (w *World) clientReads() bool {
	c := w.clients
	at := topicPartition{schemas.TopicResults, w.rnd.Int32N(w.setup.partitions)}
	records, next := w.log.read(at, c.from[at], 4)
	if next == c.from[at] {
		return false
	}
	c.from[at] = next
	for _, r := range records {
		c.take(r)
	}
	return true
}

func (c *clients) take(r kafka.Record) {
	w := c.world
	result := decode(r, schemas.DecodeResult)
	cmd := c.byID[result.CommandID]
	if rejection := result.Answer.Rejection; rejection != nil &&
		(rejection.Code == domain.CodeCommandUnreadable || rejection.Temporary()) {
		w.count("refusals: " + rejection.Code) // 503: the client keeps waiting and repeats the command
		if cmd != nil && rejection.Temporary() && cmd.isToldWhere() {
			w.violate("G1: %s is refused with %s, and the history says where the event went", cmd.ID,
				rejection.Code)
		}
		return
	}
	w.checks.acknowledged(cmd, result)
	cmd.asks = 0
	if cmd.answer == nil {
		w.count("acknowledged commands")
		w.count("acknowledged: " + cmd.Body.CommandType())
		w.tracef("%s %s is acknowledged", cmd.Body.CommandType(), short(cmd.ID))
	}
	cmd.answer = &result
}
