package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

// For each StateFormat, testdata/formatN contains a journal, the snapshot that the program of that
// time wrote from it, and the number of settled deliveries it remembered. To write the folder of a
// new format, run:
//
//	go test ./streams/engine -run TestTheFormatOfToday -write-format
//
// Do not change the folder of a released format, because every later version must read it.

var writeFormat = flag.Bool("write-format", false,
	"write testdata/formatN, if StateFormat is new and has none")

// about is the configuration under which a format was written.
type about struct {
	RememberedSettled int `json:"rememberedSettled"`
}

type kept struct {
	Key     []byte
	Value   []byte
	Headers []kafka.Header
}

func formatDir(format int) string { return filepath.Join("testdata", fmt.Sprint("format", format)) }

// stateOfEverything returns a partition whose state has entries of every kind.
func stateOfEverything(t *testing.T) *core {
	c := newCore(t)
	c.partitionOf = func(id string) int32 {
		if id == nextEndpoint {
			return 3
		}
		return 0
	}
	c.reopen(false)
	key := domain.Key{
		ID:           "key_1",
		Name:         "shop",
		Hash:         []byte{1},
		Permissions:  []domain.Permission{domain.PermissionRead},
		AllowedCIDRs: []string{"10.0.0.0/8"},
	}
	c.turn(domain.Command{ID: "cmd_account", AccountID: accountID, Body: domain.CreateAccount{
		AccountID: accountID,
		Email:     "a@b.example",
		Key:       key,
	}})
	c.turn(domain.Command{ID: "cmd_email", AccountID: accountID, Body: domain.UpdateAccount{
		AccountID:  accountID,
		Email:      "b@b.example",
		MoreEmails: []string{"c@b.example"},
	}})
	invoice := goodWatch()
	invoice.Once, invoice.ExpiresAtMillis = true, c.now+hour
	c.take(commandRecord(asked(domain.CreateWatch{Watch: invoice})))
	c.turn(domain.Command{ID: "cmd_fulfil", AccountID: accountID, Body: domain.RecordCoverage{
		WatchID:    invoice.ID,
		Fulfils:    domain.Fulfilment{PaymentID: "7-1", Ledger: 7, ClosedAtMillis: c.now},
		IfRevision: 1,
	}})
	c.endpoints()
	c.gone("ep_gone") // one notice has been ordered, one is retried and one waits
	c.answered(c.later(0)[0], domain.MailDeferred, "taken")
	c.gone("ep_gone_too")
	c.handsOver()
	c.stand()
	for range 3 { // the endpoint now has one attempt at a time
		c.now += 2 * hour
		c.turn()
		c.answerAll(domain.AttemptResult{StatusCode: 500}) // finally FAILED
	}
	c.pay(endpointID, "evt_under_way")
	c.turn(domain.Command{
		ID:        "cmd_disable",
		AccountID: accountID,
		Body:      domain.DisableEndpoint{EndpointID: endpointID},
	}, domain.Command{
		ID:        "cmd_enable",
		AccountID: accountID,
		Body:      domain.EnableEndpoint{EndpointID: endpointID},
	})
	return c
}

// endpoints creates two endpoints with deliveries in every state.
func (c *core) endpoints() {
	c.t.Helper()
	c.turn(creation(endpointID))
	c.settles("evt_delivered", 200)
	c.settles("evt_failing", 500)
	c.turn(creation("ep_deleted"))
	c.pay("ep_deleted", "evt_cancelled")
	c.done[len(c.done)-1](domain.AttemptResult{StatusCode: 500, ResponseBody: []byte("no")})
	c.turn(removal("ep_deleted"))
	c.turn()
	c.turn(domain.Command{
		ID:        "cmd_test",
		AccountID: accountID,
		BodyHash:  []byte("hash"),
		Body:      domain.TestEndpoint{EndpointID: endpointID},
	})
	c.done[len(c.done)-1](domain.AttemptResult{Error: domain.AttemptTimeout})
	c.turn()
	c.done = nil
}

// handsOver moves one event to another partition and one event from another partition.
func (c *core) handsOver() {
	c.t.Helper()
	c.turn(creation(leftEndpoint))
	c.pay(leftEndpoint, movedEvent)
	c.done[len(c.done)-1](domain.AttemptResult{StatusCode: 500})
	c.turn()
	c.done = nil
	c.turn(removal(leftEndpoint))
	c.turn()
	c.turn(resending("cmd_move", leftEndpoint, nextEndpoint))
	if len(c.handedOver()) != 1 {
		c.t.Fatal("nothing was handed over")
	}
	message := schemas.EncodeHandOver(domain.MatchInput{
		EndpointID: endpointID,
		AccountID:  accountID,
		WatchID:    watchID,
		Event: domain.Event{
			ID:   "evt_came",
			Type: domain.PaymentReceived,
			Body: []byte("came"),
		},
		Moved: domain.Moved{Moves: 1, Attempts: 2, Runs: 1, FromPartition: 5, Number: 77},
	})
	c.match(kafka.NewRecord(schemas.TopicMatches, endpointID, message.Value, message.EachHeader))
}

// stand creates an endpoint with a line. Its head is pending, with two deliveries behind it.
func (c *core) stand() {
	c.t.Helper()
	ordered := orderedCreation("ep_ordered")
	body := ordered.Body.(domain.CreateEndpoint)
	body.NoticesTo = endpointID
	ordered.Body = body
	c.turn(ordered)
	for _, event := range []string{"evt_head", "evt_next", "evt_last"} {
		c.take(paidTo("ep_ordered", "GTO", event))
	}
}

// folded returns a partition whose state was folded from the journal.
func folded(t *testing.T, journal []kafka.Record) *core {
	t.Helper()
	c := newCore(t)
	return c.on(func() { c.journal = journal })
}

// loaded returns a partition that has a snapshot and only the part of the journal after it.
func loaded(t *testing.T, journal, snapshot []kafka.Record) (*core, error) {
	t.Helper()
	c := newCore(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c.disk, c.journal, c.snapshot = vfs.NewCrashableMem(), journal, snapshot
	c.begins = int64(len(journal))
	c.flights = engine.NewFlights(c)
	return c, c.tryToOpen()
}

// on applies a change and reopens the partition without its state.
func (c *core) on(change func()) *core {
	c.t.Helper()
	change()
	c.reopen(true)
	return c
}

func snapshotOf(t *testing.T, c *core) (records []kafka.Record) {
	t.Helper()
	err := task.EachSnapshotRecord(c.Store(), engine.Snapshots(1), schemas.TopicJournal, 0,
		func(r kafka.Record) error {
			r.Offset = int64(len(records))
			records = append(records, r)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// Folding a journal must give the files of the current StateFormat. If the result changes,
// StateFormat must change as well, and reading earlier states needs a conversion: a deployment
// whose journal was truncated has only its snapshots.
func TestTheFormatOfToday(t *testing.T) {
	dir := formatDir(engine.StateFormat)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && *writeFormat {
		writeFormatOfToday(t, dir)
	}
	var made about
	readJSON(t, filepath.Join(dir, "about.json"), &made)
	if made.RememberedSettled != engine.RememberedSettled {
		t.Errorf("a partition remembers %d settled deliveries, and in state format %d it is %d: "+
			"increment StateFormat, and say by a conversion what becomes of a state that has "+
			"forgotten more or less", engine.RememberedSettled, engine.StateFormat,
			made.RememberedSettled)
	}
	journal, snapshot := readRecords(t, dir, "journal"), readRecords(t, dir, "snapshot")
	today := folded(t, journal)
	wantSameIdentity(t, snapshotOf(t, today), snapshot)
	kinds := make(map[byte]bool)
	for key := range today.everything() {
		kinds[key[0]] = true
	}
	for kind := byte(0x10); kind <= 0x1d; kind++ {
		kinds[tabled] = true // the store's own key, which is not compared
		if !kinds[kind] || !kinds[0x01] || !kinds[0x02] {
			t.Errorf("the state has no entry of %#x (%v), so nothing was found out", kind, kinds)
		}
	}
}

func wantSameIdentity(t *testing.T, a, b []kafka.Record) {
	t.Helper()
	var of [2]struct{ Identity string }
	for i, records := range [][]kafka.Record{a, b} {
		if err := json.Unmarshal(records[len(records)-1].Value, &of[i]); err != nil {
			t.Fatal(err)
		}
	}
	if of[0] != of[1] {
		t.Errorf("a snapshot of today is of %q, and the one of this StateFormat of %q: give the new "+
			"form a StateFormat of its own", of[0].Identity, of[1].Identity)
	}
}

// For each format, the test loads the snapshot without its journal and compares it with the state
// that this version folds from the journal.
func TestEveryFormatIsRead(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("testdata", "format*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there are no formats: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			journal, snapshot := readRecords(t, dir, "journal"), readRecords(t, dir, "snapshot")
			wants := folded(t, journal).everything()
			c, err := loaded(t, journal, snapshot)
			if err != nil {
				t.Fatalf("its snapshot is not read; conversions has what makes its entries those of "+
					"the next format, and none is ever removed: %v", err)
			}
			differ(t, c.everything(), wants)
		})
	}
}

func differ(t *testing.T, have, want map[string]string) {
	t.Helper()
	if reflect.DeepEqual(have, want) {
		return
	}
	t.Error("the state that was loaded is not what the journal is folded into today: increment " +
		"StateFormat, and convert what was before")
	for key, value := range want {
		if got, found := have[key]; !found || got != value {
			t.Errorf("%q is %x, not %x", key, got, value)
		}
	}
	for key, value := range have {
		if _, wanted := want[key]; !wanted {
			t.Errorf("%q is %x, and is not to be", key, value)
		}
	}
}

func writeFormatOfToday(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(about{engine.RememberedSettled}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "about.json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	c := stateOfEverything(t)
	c.reopen(true)
	writeRecords(t, dir, "journal", c.journal)
	writeRecords(t, dir, "snapshot", snapshotOf(t, c))
}

func writeRecords(t *testing.T, dir, name string, records []kafka.Record) {
	t.Helper()
	var text bytes.Buffer
	for _, r := range records {
		line, err := json.Marshal(kept{r.Key, r.Value, r.Headers})
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	if err := os.WriteFile(filepath.Join(dir, name+".jsonl"), text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readRecords(t *testing.T, dir, name string) (records []kafka.Record) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r kept
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		topic := schemas.TopicJournal
		if name == "snapshot" {
			topic = schemas.TopicSnapshots
		}
		records = append(records, kafka.Record{
			Topic:   topic,
			Offset:  int64(len(records)),
			Key:     r.Key,
			Value:   r.Value,
			Headers: r.Headers,
		})
	}
	return records
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%v (a new StateFormat is written down by -write-format)", err)
	}
}
