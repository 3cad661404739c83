package transfer_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

// Endpoints of a shop, named after the outcome of their deliveries.
const (
	answering = iota + 1
	failing   // retried after an hour
	gone      // disabled by a 410
	disabled  // disabled by a command, with pending deliveries
	deleted
	others // all endpoints from here on answer
	total  = 16
)

// shop is a deployment that has deliveries in every state.
type shop struct {
	*deployment
	once    map[string]bool // events that were delivered
	waiting map[string]bool // events that are delivered once their endpoint answers
	untaken map[string]bool // events that no engine has seen
}

func creationOf(d *deployment, n int) domain.CreateEndpoint {
	return domain.CreateEndpoint{
		EndpointID:       endpointID(n),
		AccountID:        account,
		EndpointSettings: domain.EndpointSettings{URL: d.server.URL + "/" + endpointID(n)},
		SealedSecret:     []byte(secret),
	}
}

func watchOf(n int) domain.CreateWatch {
	return domain.CreateWatch{Watch: domain.Watch{
		ID:            watchID(n),
		AccountID:     account,
		EndpointID:    endpointID(n),
		WalletAddress: "GTO",
		EventTypes:    []domain.EventType{domain.PaymentReceived},
		Rules: domain.Rules{
			Amount: domain.AmountRule{Kind: domain.AmountAny},
			Memo:   domain.MemoRule{Kind: domain.MemoAny},
		},
	}}
}

func opened(d *deployment) map[string]domain.CommandBody {
	commands := map[string]domain.CommandBody{
		"cmd_account": domain.CreateAccount{
			AccountID: account,
			Email:     "a@b.example",
			Key:       domain.Key{ID: "key_1", Hash: []byte{1}},
		},
	}
	for n := 1; n <= total; n++ {
		commands["cmd_"+endpointID(n)] = creationOf(d, n)
		commands["cmd_"+watchID(n)] = watchOf(n)
	}
	return commands
}

// openShop fills a deployment and leaves an engine running.
func openShop(d *deployment) (s *shop, stop func()) {
	d.t.Helper()
	s = &shop{
		deployment: d,
		once:       make(map[string]bool),
		waiting:    make(map[string]bool),
		untaken:    make(map[string]bool),
	}
	d.makeTopics()
	d.answers(endpointID(failing), 500)
	d.answers(endpointID(gone), 410)
	stop = d.start()
	d.do(opened(d))
	d.do(map[string]domain.CommandBody{
		"cmd_disable": domain.DisableEndpoint{EndpointID: endpointID(disabled)},
		"cmd_delete":  domain.DeleteEndpoint{EndpointID: endpointID(deleted)},
	})
	for _, n := range []int{answering, others} {
		s.backfills(n)
	}
	s.append(s.beginPart(answering))
	testkit.Eventually(d.t, "a part of a backfill is begun", func() bool {
		return len(s.watch(d, answering).Parts) == 1
	})
	for n := 1; n <= total; n++ {
		for payment := range 5 {
			event, match := paid(n, payment, 10)
			d.append(match)
			switch n {
			case failing, gone, disabled:
				s.waiting[event] = true
			case deleted:
			default:
				s.once[event] = true
			}
		}
	}
	cursor := schemas.EncodeLedgerRead(schemas.LedgerRead{
		NetworkPassphrase: "test",
		Sequence:          9,
		Hash:              "hash",
		MatchesOffsets:    map[int32]int64{},
		PaymentsOffsets:   map[int32]int64{0: 0},
	})
	d.append(kafka.NewRecord(schemas.TopicLedgers, "test", cursor.Value, cursor.EachHeader))
	for event := range s.once {
		testkit.Eventually(d.t, "delivered", func() bool { return s.requests(event) == 1 })
	}
	for _, n := range []int{failing, gone} {
		event, _ := paid(n, 0, 10)
		testkit.Eventually(d.t, "tried", func() bool { return s.requests(event) == 1 })
	}
	return s, stop
}

// payOn appends records that no engine processes.
func (s *shop) payOn() {
	s.t.Helper()
	for n := others; n <= total; n++ {
		event, match := paid(n, 100, 11)
		s.append(match)
		s.untaken[event] = true
	}
	s.append(command("cmd_late", creationOf(s.deployment, total+1)), s.beginPart(others))
	kept, notYet := s.handOver("evt_handed_over", 1), s.handOver(fromTheFuture, 1<<40)
	s.append(kept, notYet)
	s.untaken["evt_handed_over"] = true
	s.append(command("cmd_resend", forgotten()))
}

// forgotten resends an event that had ended according to the history of the old topics.
func forgotten() domain.ResendEvent {
	event := fmt.Sprintf("evt_%026d", 1)
	return domain.ResendEvent{
		EndpointID: endpointID(answering),
		EventID:    event,
		Remembered: &domain.Remembered{
			Body: []byte("{}"),
			Delivery: domain.Delivery{
				EventID:    event,
				EventType:  domain.PaymentReceived,
				AccountID:  account,
				EndpointID: endpointID(answering),
				WatchID:    watchID(answering),
				State:      domain.StateDelivered,
				Attempts:   1,
				Run:        1,
			},
			AsOf: 4,
		},
	}
}

// fromTheFuture is an event that was handed over by a fact that is not in the copy.
const fromTheFuture = "evt_from_the_future"

// handOver returns the handover of an event by partition 0, with the given number.
func (s *shop) handOver(event string, number uint64) kafka.Record {
	m := schemas.EncodeHandOver(domain.MatchInput{
		AccountID:  account,
		EndpointID: endpointID(others),
		WatchID:    watchID(others),
		Event: domain.Event{
			ID:              event,
			Type:            domain.PaymentReceived,
			CreatedAtMillis: hour,
			Body:            []byte("{}"),
		},
		Moved: domain.Moved{
			Moves:             1,
			Attempts:          1,
			Runs:              1,
			FormerEndpointIDs: []string{endpointID(answering)},
			Number:            number,
		},
	})
	return kafka.NewRecord(schemas.TopicMatches, endpointID(others), m.Value, m.EachHeader)
}

func (s *shop) backfills(n int) {
	s.t.Helper()
	s.append(command(fmt.Sprint("cmd_live_", n),
		domain.RecordCoverage{WatchID: watchID(n), LiveSince: 10}))
	s.do(map[string]domain.CommandBody{
		fmt.Sprint("cmd_past_", n): domain.BackfillWatch{WatchID: watchID(n), From: 2, To: 9},
	})
}

// beginPart returns the command with which a follower begins part of a backfill.
func (s *shop) beginPart(n int) kafka.Record {
	s.t.Helper()
	watch := s.answersTo(fmt.Sprint("cmd_past_", n))[0].Answer.Watch
	return command(fmt.Sprint("cmd_part_", n), domain.RecordCoverage{
		WatchID: watchID(n),
		Request: watch.Backfill.Request,
		Until:   9,
		Next: domain.NextPart{
			Range:       domain.Range{From: 2, To: 9},
			EndpointID:  endpointID(n),
			MatchesFrom: 1,
		},
	})
}

func (s *shop) watch(of *deployment, n int) (w domain.Watch) {
	s.t.Helper()
	for _, r := range of.log.Read(schemas.TopicWatches) {
		if string(r.Key) == watchID(n) {
			var err error
			w, err = schemas.DecodeWatch(schemas.Read(r.Value, r))
			s.must(err)
		}
	}
	return w
}

// goesOn checks a deployment that was created from the shop's. An engine on it delivers the pending
// and the unprocessed events once, and no event that was already delivered.
func (s *shop) goesOn(to *deployment) {
	s.t.Helper()
	to.open()
	before := make(map[string]int)
	for event := range s.waiting {
		before[event] = s.requests(event)
	}
	s.answers(endpointID(failing), 200)
	s.answers(endpointID(gone), 200)
	defer to.start()()
	for event := range s.untaken {
		testkit.Eventually(s.t, "what was not taken is delivered",
			func() bool { return s.requests(event) == 1 })
	}
	testkit.Eventually(s.t, "a command that was not taken is answered",
		func() bool { return len(to.answersTo("cmd_late")) == 1 })
	testkit.Eventually(s.t, "a resend that was not taken is answered",
		func() bool { return len(to.answersTo("cmd_resend")) == 1 })
	said := to.answersTo("cmd_resend")[0].Answer.Rejection
	if said == nil || said.Code != domain.CodeHistoryBehind {
		s.t.Errorf("what the history of the old topics had is believed: %+v", said)
	}
	for id, body := range opened(s.deployment) {
		to.append(command(id, body))
	}
	for id := range opened(s.deployment) {
		testkit.Eventually(s.t, "a repeat is answered",
			func() bool { return len(to.answersTo(id)) == 1 })
		first, again := s.answersTo(id)[0], to.answersTo(id)[0]
		if !again.Replayed || !reflect.DeepEqual(first.Answer, again.Answer) {
			s.t.Errorf("%s was answered %+v, and its repeat %+v", id, first, again)
		}
	}
	to.do(map[string]domain.CommandBody{
		"cmd_enable_disabled": domain.EnableEndpoint{EndpointID: endpointID(disabled)},
		"cmd_enable_gone":     domain.EnableEndpoint{EndpointID: endpointID(gone)},
		"cmd_disable_failing": domain.DisableEndpoint{EndpointID: endpointID(failing)},
	})
	to.do(map[string]domain.CommandBody{
		"cmd_enable_failing": domain.EnableEndpoint{EndpointID: endpointID(failing)},
	})
	for event, n := range before {
		testkit.Eventually(s.t, "what was waiting is delivered",
			func() bool { return s.requests(event) == n+1 })
	}
	event, match := paid(answering, 200, 12)
	to.append(match)
	testkit.Eventually(s.t, "a new payment is delivered",
		func() bool { return s.requests(event) == 1 })
	for event := range s.once {
		if n := s.requests(event); n != 1 {
			s.t.Errorf("%s was sent %d times", event, n)
		}
	}
	if s.requests(fromTheFuture) != 0 {
		s.t.Error("an event was handed over by a fact that is not in the copy")
	}
	s.followsOn(to)
}

// followsOn checks the cursor, the matches that a follower reads back, and the tables.
func (s *shop) followsOn(to *deployment) {
	s.t.Helper()
	ledgers := to.log.Read(schemas.TopicLedgers)
	read, err := schemas.DecodeLedgerRead(schemas.Read(ledgers[0].Value, ledgers[0]))
	s.must(err)
	if len(ledgers) != 1 || read.Sequence != 9 || read.Hash != "hash" ||
		read.NetworkPassphrase != "test" || len(read.MatchesOffsets) != int(to.partitions) {
		s.t.Errorf("the cursor is %+v", read)
	}
	there := make(map[string]int)
	for _, r := range to.log.Read(schemas.TopicMatches) {
		made, err := schemas.DecodeMatchMade(schemas.Read(r.Value, r))
		s.must(err)
		there[made.EventID]++
	}
	for _, events := range []map[string]bool{s.once, s.waiting, s.untaken} {
		for event := range maps.Keys(events) {
			if there[event] != 1 {
				s.t.Errorf("a follower reads %s back %d times", event, there[event])
			}
		}
	}
	for _, n := range []int{answering, others} {
		testkit.Eventually(s.t, "parts of backfills are begun", func() bool {
			return len(s.watch(to, n).Parts) == 1
		})
		if part := s.watch(to, n).Parts[0]; part.MatchesFrom != 0 || part.To != 9 {
			s.t.Errorf("a part names an offset of the old topics: %+v", part)
		}
	}
	rows := make(map[string]bool)
	for _, topic := range []string{
		schemas.TopicAccounts, schemas.TopicWatches, schemas.TopicEndpoints,
	} {
		for _, r := range to.log.Read(topic) {
			rows[string(r.Key)] = true
		}
	}
	if want := 1 + 2*total + 1; len(rows) != want {
		s.t.Errorf("the tables have %d rows, and should have %d", len(rows), want)
	}
}

func TestADeploymentGoesOnWithAnotherPartitionCount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to int32 }{{4, 7}, {7, 3}} {
		t.Run(fmt.Sprintf("%d to %d", c.from, c.to), func(t *testing.T) {
			r := newRig(t)
			from, to := r.under("from", c.from), r.under("to", c.to)
			s, stop := openShop(from)
			asked := 0
			moved, err := transfer.Repartition(t.Context(), transfer.Move{
				Source: from.source(),
				Target: to.target(),
				Tell:   silent,
				Stop: func(inUse error) {
					asked++
					if !strings.Contains(inUse.Error(), "engine (1)") {
						t.Errorf("asks to be let alone by %v", inUse)
					}
					stop()
					s.payOn()
				},
			})
			r.must(err)
			if asked != 1 || moved.Before != c.from || moved.Partitions != c.to || moved.Entries == 0 {
				t.Errorf("asked %d times; it became %+v", asked, moved)
			}
			s.goesOn(to)
			if err := topology.CheckOpen(t.Context(), from.Cluster); err == nil ||
				!strings.Contains(err.Error(), "another prefix") {
				t.Errorf("the service may start on the old topics: %v", err)
			}
			if err := topology.CheckOpen(t.Context(), to.Cluster); err != nil {
				t.Errorf("the service may not start on the new topics: %v", err)
			}
		})
	}
}

// A backup of a stopped deployment that has unprocessed records restores to a cluster that
// continues, with the same or another number of partitions.
func TestAClusterIsMadeOfABackup(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int32{4, 5} {
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			r := newRig(t)
			from, to := r.under("from", 4), r.under("to", partitions)
			s, stop := openShop(from)
			dir := filepath.Join(t.TempDir(), "backup")
			stop()
			s.payOn()
			m, err := transfer.WriteBackup(t.Context(), from.source(), dir, silent)
			r.must(err)
			if m.Cursor.Ledger != 9 || m.Entries == 0 || m.Partitions != 4 {
				t.Errorf("the backup is of %+v", m)
			}
			placed, err := transfer.Restore(t.Context(), dir, to.target(), nil, silent)
			r.must(err)
			if placed.Digest != m.Digest || placed.Entries != m.Entries {
				t.Errorf("of the states %+v came %+v", m, placed)
			}
			s.goesOn(to)
			_, err = transfer.Restore(t.Context(), dir, to.target(), nil, silent)
			if err == nil || !strings.Contains(err.Error(), "must be empty") {
				t.Errorf("it is restored into a deployment that lives: %v", err)
			}
		})
	}
}

// A damaged backup, or a folder that is not a backup, is refused before anything is written.
func TestADamagedBackupIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from, to := r.under("from", 2), r.under("to", 2)
	_, stop := openShop(from)
	stop()
	whole := filepath.Join(t.TempDir(), "backup")
	m, err := transfer.WriteBackup(t.Context(), from.source(), whole, silent)
	r.must(err)
	for name, c := range map[string]struct {
		damage func(dir string)
		says   string
	}{
		"a byte of a state": {func(dir string) {
			path := filepath.Join(dir, m.States[1].Name)
			text, err := os.ReadFile(path)
			r.must(err)
			text[len(text)/2] ^= 1
			r.must(os.WriteFile(path, text, 0o600))
		}, "is damaged"},
		"a missing file": {func(dir string) {
			r.must(os.Remove(filepath.Join(dir, "commands.zst")))
		}, "is missing"},
		"no manifest": {func(dir string) {
			r.must(os.Remove(filepath.Join(dir, "manifest.json")))
		}, "is no backup"},
		"a newer form": {
			func(dir string) { rewrite(r, dir, func(m map[string]any) { m["format"] = 99 }) },
			"restore it with version test",
		},
		"other states": {
			func(dir string) { rewrite(r, dir, func(m map[string]any) { m["stateFormat"] = 99 }) },
			"restore it with version test",
		},
		"a state that was left out": {
			func(dir string) {
				rewrite(r, dir, func(m map[string]any) { m["states"] = m["states"].([]any)[:1] })
			},
			"is damaged",
		},
		"a digest of other states": {
			func(dir string) { rewrite(r, dir, func(m map[string]any) { m["digest"] = "00" }) },
			"are not those that were written",
		},
		"a file elsewhere": {
			func(dir string) {
				rewrite(r, dir, func(m map[string]any) {
					m["states"].([]any)[0].(map[string]any)["name"] = "../state"
				})
			},
			"is damaged",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "copy")
			r.must(os.CopyFS(dir, os.DirFS(whole)))
			c.damage(dir)
			_, err := transfer.Restore(t.Context(), dir, to.target(), nil, silent)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("answered %v", err)
			}
		})
	}
	there, err := to.DescribeTopics(t.Context(), schemas.TopicJournal)
	if err != nil || len(there) != 0 {
		t.Errorf("something was made of a damaged backup: %v, %v", there, err)
	}
}

func rewrite(r *rig, dir string, change func(map[string]any)) {
	r.t.Helper()
	path := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(path)
	r.must(err)
	var m map[string]any
	r.must(json.Unmarshal(text, &m))
	change(m)
	text, err = json.Marshal(m)
	r.must(err)
	r.must(os.WriteFile(path, text, 0o600))
}

// A restore copies the settled deliveries that each partition remembers to the partition of their
// endpoint, which forgets them in order.
func TestSettledDeliveriesAreRememberedBehindAMove(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from, to := r.under("from", 3), r.under("to", 2)
	_, stop := openShop(from)
	stop()
	dir := filepath.Join(t.TempDir(), "backup")
	_, err := transfer.WriteBackup(t.Context(), from.source(), dir, silent)
	r.must(err)
	_, err = transfer.Restore(t.Context(), dir, to.target(), nil, silent)
	r.must(err)
	source, target := ringsOf(from), ringsOf(to)
	if len(source) == 0 || !reflect.DeepEqual(source, target) {
		t.Errorf("%d deliveries were remembered, and %d are", len(source), len(target))
	}
}

// ringsOf returns the events of the settled deliveries that a deployment remembers.
func ringsOf(d *deployment) map[string]bool {
	d.t.Helper()
	cfg := d.source()
	cfg.Progress = silent.Progress
	source, err := transfer.OpenSource(d.t.Context(), cfg)
	d.must(err)
	defer func() { d.must(source.Close()) }()
	d.must(source.Fold(d.t.Context()))
	events := make(map[string]bool)
	for p := range source.Partitions() {
		numbers := uint64(0)
		d.must(source.State(p).Each(func(key, value []byte) (bool, error) {
			if engine.IsSettled(key) {
				_, event, _ := strings.Cut(string(value), "evt_")
				events[event] = true
				numbers++
			}
			if string(key) == "\x1a" && binary.BigEndian.Uint64(value[8:])-
				binary.BigEndian.Uint64(value) != numbers {
				d.t.Errorf("partition %d counts others than its %d", p, numbers)
			}
			return true, nil
		}))
	}
	return events
}
