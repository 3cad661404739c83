//go:build receivers

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
)

// maxHookBytes is the largest body that the kits accept.
const maxHookBytes = 64 << 10

type hook struct {
	id      string
	header  http.Header
	body    []byte
	chunked bool
}

// pays returns the event of the next payment, which watch matches. Each payment has its own number.
func (a *receiverApp) pays(watch string) domain.Event {
	a.sent++
	payment := domain.Payment{
		ID:             strconv.Itoa(1000 + a.sent),
		TxHash:         strings.Repeat("0f", 32),
		Ledger:         7,
		ClosedAtMillis: 1_793_620_797_000,
		From:           "GAKPBFTLRWT2XS4CS54MK2MZW23HWCSUC4YCZC7X7JKMJKL6EGLTME4N",
		To:             a.wallet,
		Memo:           domain.Memo{Type: domain.MemoText, Raw: []byte("Crème №7")},
		Asset:          domain.NativeAsset(),
		AmountStroops:  int64(a.sent),
	}
	return paymentEvent(watch, payment)
}

func paymentEvent(watch string, payment domain.Payment) domain.Event {
	return domain.NewPaymentEvent(domain.Match{
		EventID: domain.EventID(watch, payment.ID),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            domain.DeriveID(domain.WatchPrefix, watch),
			Label:         "Tōkyō",
			WalletAddress: payment.To,
		},
		Payment:      payment,
		Verification: domain.Verification{Outcome: domain.OutcomeVerified},
	}, 1_793_620_801_456)
}

func (a *receiverApp) signed(id string, body []byte, at time.Time, secrets ...domain.Secret) hook {
	if len(secrets) == 0 {
		secrets = a.held[1:]
	}
	return hook{id: id, body: body, header: http.Header{
		"Content-Type":      {"application/json"},
		"Webhook-Id":        {id},
		"Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"Webhook-Signature": {domain.SignatureHeader(secrets, at.Unix(), body)},
	}}
}

func (a *receiverApp) good() hook {
	event := a.pays("wat_1")
	return a.signed(event.ID, event.Body, time.Now())
}

func (a *receiverApp) conforms(s *testService) {
	a.refusesToStart()
	a.start("on")
	want := a.cases()
	want = append(want, a.ofEachType()...)
	want = append(want, a.repeats()...)
	want = append(want, a.rotated()...)
	want = append(want, a.reordered()...)
	want = append(want, a.paidTwice()...)
	want = append(want, a.sample()...)
	want = append(want, a.setsAside()...)
	want = append(want, a.fromTheProgram(s)...)
	a.processes(want)

	a.process.kill()
	want = append(want, a.answersFirst(want)...)
	want = append(want, a.killedAtWork(want)...)
	a.processes(want)
}

// refusesToStart checks that an example does not start without a valid secret, because anyone can
// sign with an empty one. It must name the setting, without a stack trace.
func (a *receiverApp) refusesToStart() {
	for name, text := range map[string]string{
		"empty": "\n", "prefix": "whsec_\n", "part": strings.TrimPrefix(string(a.held[1]), "whsec_"),
	} {
		file := filepath.Join(a.own, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			a.t.Fatal(err)
		}
		a.refusesSecrets(name, file)
	}
	a.refusesSecrets("a file that is missing", filepath.Join(a.own, "missing"))
	a.refusesSecrets("no file", "")
}

func (a *receiverApp) refusesSecrets(name, file string) {
	a.t.Helper()
	p := a.launch(freePort(a.t), "on", file)
	testkit.EventuallyNil(a.t, "it refuses to start", func() error {
		select {
		case <-p.over:
			return nil
		default:
			return fmt.Errorf("it runs on, with %s as its secrets:\n%s", name, p.output)
		}
	})
	if p.ended == nil {
		a.t.Errorf("it ended well, with %s as its secrets", name)
	}
	lines := strings.Split(p.output.String(), "\n")
	told := func(line string) bool { return strings.Contains(line, "LUMENHOOK_SECRET_FILE") }
	trace := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "at ") }
	if !slices.ContainsFunc(lines, told) || slices.ContainsFunc(lines, trace) {
		a.t.Errorf("with %s as its secrets it said\n%s", name, p.output)
	}
}

func (a *receiverApp) cases() (taken []string) {
	cases := a.deliveries()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		status, says := a.post(c.hook)
		if status != c.status {
			a.t.Errorf("%s: answered %d (%s), and not %d", name, status, strings.TrimSpace(says), c.status)
		}
		if c.status == http.StatusOK {
			taken = append(taken, c.hook.id)
		}
	}
	response, err := http.Get("http://127.0.0.1:" + *a.port.Load() + "/webhooks")
	if err != nil {
		a.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		a.t.Errorf("a GET was answered %d", response.StatusCode)
	}
	return taken
}

type receiverCase struct {
	hook   hook
	status int
}

// deliveries is the table of requests that are accepted, or refused because of their signature,
// form, or size. Those refused because of their form are signed correctly.
func (a *receiverApp) deliveries() map[string]receiverCase {
	cases := make(map[string]receiverCase)
	add := func(name string, status int, change func(d *hook)) {
		d := a.good()
		change(&d)
		cases[name] = receiverCase{d, status}
	}
	a.signatures(add)
	a.times(add)
	a.forms(add)
	a.sizes(add)
	return cases
}

type addCase func(name string, status int, change func(d *hook))

func (a *receiverApp) signatures(add addCase) {
	resign := func(secrets ...domain.Secret) func(d *hook) {
		return func(d *hook) { *d = a.signed(d.id, d.body, time.Now(), secrets...) }
	}
	signature := func(change func(given string) []string) func(d *hook) {
		return func(d *hook) {
			d.header["Webhook-Signature"] = change(d.header.Get("Webhook-Signature"))
		}
	}
	add("good", 200, func(*hook) {})
	add("rotated, of two one is held", 200, resign("whsec_new", a.held[1]))
	add("rotated, of two both are held", 200, resign(a.held[1], a.held[0]))
	add("by the secret of before", 200, resign(a.held[0]))
	add("by another secret", 401, resign("whsec_new"))
	add("by the secret without its prefix", 401,
		resign(domain.Secret(strings.TrimPrefix(string(a.held[1]), domain.SecretPrefix))))
	add("with signatures of Standard Webhooks", 200, func(d *hook) {
		at := time.Now().Unix()
		d.header.Set("Webhook-Signature", domain.Attempt{
			EventID: d.id, Body: d.body, Secrets: a.held, Signatures: domain.StandardWebhooks,
		}.SignatureHeader(at))
		d.header.Set("Webhook-Timestamp", strconv.FormatInt(at, 10))
	})
	add("with entries of other kinds", 200, signature(func(given string) []string {
		return []string{"v2=00, v1=zz,,v1a,AAAA , " + given + " ,v0=" + given}
	}))
	add("in two headers", 200, signature(func(given string) []string {
		return []string{"v1=" + strings.Repeat("0", 64), given}
	}))
	add("signature tampered with", 401, signature(func(given string) []string {
		last := map[bool]string{true: "1", false: "0"}[strings.HasSuffix(given, "0")]
		return []string{given[:len(given)-1] + last}
	}))
	add("signature with more after it", 401, signature(func(given string) []string {
		return []string{given + "zz"}
	}))
	add("signature with a space in it", 401, signature(func(given string) []string {
		return []string{given[:9] + " " + given[9:]}
	}))
	add("signature without its kind", 401, signature(func(given string) []string {
		return []string{strings.TrimPrefix(given, "v1=")}
	}))
	add("signature empty", 401, signature(func(string) []string { return []string{"v1="} }))
	add("signature missing", 401, func(d *hook) { d.header.Del("Webhook-Signature") })
	add("body tampered with", 401, func(d *hook) {
		d.body = bytes.Replace(d.body, []byte(`"amountStroops":"`), []byte(`"amountStroops":"9`), 1)
	})
	add("body serialised again", 401, func(d *hook) { d.body = append(slices.Clone(d.body), '\n') })
	add("id tampered with", 400, func(d *hook) { d.header.Set("Webhook-Id", "evt_another") })
	add("id missing", 400, func(d *hook) { d.header.Del("Webhook-Id") })
}

func (a *receiverApp) times(add addCase) {
	for name, c := range map[string]struct {
		offset time.Duration
		status int
	}{
		"ten seconds before it is stale":       {-290 * time.Second, 200},
		"stale":                                {-301 * time.Second, 401},
		"ten seconds before it is too early":   {290 * time.Second, 200},
		"from the future":                      {360 * time.Second, 401},
		"of a year ago":                        {-365 * 24 * time.Hour, 401},
		"of the largest time of twelve digits": {time.Until(time.Unix(999_999_999_999, 0)), 401},
	} {
		add(name, c.status, func(d *hook) { *d = a.signed(d.id, d.body, time.Now().Add(c.offset)) })
	}
	for name, change := range map[string]func(sent string) string{
		"timestamp of another time":        func(string) string { return strconv.FormatInt(time.Now().Unix()+1, 10) },
		"timestamp with a sign":            func(sent string) string { return "+" + sent },
		"timestamp with a fraction":        func(sent string) string { return sent + ".0" },
		"timestamp with thirteen digits":   func(sent string) string { return "000" + sent },
		"timestamp with a digit of others": func(sent string) string { return sent[:9] + "٣" },
		"timestamp empty":                  func(string) string { return "" },
	} {
		add(name, 401, func(d *hook) {
			d.header.Set("Webhook-Timestamp", change(d.header.Get("Webhook-Timestamp")))
		})
	}
	add("timestamp missing", 401, func(d *hook) { d.header.Del("Webhook-Timestamp") })
}

func (a *receiverApp) forms(add addCase) {
	for name, kind := range map[string]string{
		"as JSON in UTF-8": "application/json; charset=utf-8",
		"in capitals":      `Application/JSON;Charset="UTF-8"`,
	} {
		add(name, 200, func(d *hook) { d.header.Set("Content-Type", kind) })
	}
	for name, kind := range map[string]string{
		"as text": "text/plain", "as a form": "application/x-www-form-urlencoded",
		"as JSON in UTF-16": "application/json; charset=utf-16", "as no JSON": "application/jsonx",
	} {
		add(name, 415, func(d *hook) { d.header.Set("Content-Type", kind) })
	}
	add("as nothing", 415, func(d *hook) { d.header.Del("Content-Type") })
	body := func(change func(body []byte) []byte) func(d *hook) {
		return func(d *hook) { *d = a.signed(d.id, change(d.body), time.Now()) }
	}
	add("compressed", 415, func(d *hook) {
		body(zipped)(d)
		d.header.Set("Content-Encoding", "gzip")
	})
	add("not compressed, and says so", 200, func(d *hook) {
		d.header.Set("Content-Encoding", "identity")
	})
	add("with fields of later", 200, body(func(body []byte) []byte {
		return bytes.Replace(body, []byte(`"data":{`), []byte(`"new":[1],"data":{"new":{"a":null},`), 1)
	}))
	add("of a type of later", 200, body(func(body []byte) []byte {
		return bytes.Replace(body, []byte(`"payment.received"`), []byte(`"payment.refunded"`), 1)
	}))
	for name, change := range map[string]func(body []byte) []byte{
		"compressed without a word": zipped,
		"not UTF-8":                 func(body []byte) []byte { return bytes.Replace(body, []byte("ō"), []byte{0xff}, 1) },
		"with a byte order mark":    func(body []byte) []byte { return append([]byte("\ufeff"), body...) },
		"UTF-16":                    wide,
		"not JSON":                  func([]byte) []byte { return []byte("id=evt_1") },
		"cut short":                 func(body []byte) []byte { return body[:len(body)-1] },
		"with more after it":        func(body []byte) []byte { return append(slices.Clone(body), "{}"...) },
		"a list":                    func(body []byte) []byte { return slices.Concat([]byte("["), body, []byte("]")) },
		"null":                      func([]byte) []byte { return []byte("null") },
		"empty":                     func([]byte) []byte { return nil },
		"nested too deep":           func([]byte) []byte { return bytes.Repeat([]byte("["), 50_000) },
		"without an id":             func([]byte) []byte { return []byte(`{"type":"test.ping"}`) },
		"with a number as its id":   func([]byte) []byte { return []byte(`{"id":1,"type":"test.ping"}`) },
	} {
		add(name, 400, body(change))
	}
}

func (a *receiverApp) sizes(add addCase) {
	padded := func(size int, chunked bool) func(d *hook) {
		return func(d *hook) {
			body := append(slices.Clone(d.body), bytes.Repeat([]byte(" "), size-len(d.body))...)
			*d = a.signed(d.id, body, time.Now())
			d.chunked = chunked
		}
	}
	add("as large as may be", 200, padded(maxHookBytes, false))
	add("as large as may be, in chunks", 200, padded(maxHookBytes, true))
	add("oversized", 413, padded(maxHookBytes+1, false))
	add("oversized, in chunks", 413, padded(maxHookBytes+1, true))
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // into memory
	_ = w.Close()
	return b.Bytes()
}

func wide(body []byte) (text []byte) {
	for _, unit := range utf16.Encode([]rune(string(body))) {
		text = append(text, byte(unit), byte(unit>>8))
	}
	return text
}

// ofEachType posts the published event of each type that has a JSON Schema. Each kit's own tests
// check how it decodes them.
func (a *receiverApp) ofEachType() (ids []string) {
	files, err := fs.Glob(schemas.Events, "events/*.*.json")
	if err != nil {
		a.t.Fatal(err)
	}
	events := publishedEvents(a.t)
	for _, file := range files {
		eventType := domain.EventType(strings.TrimSuffix(path.Base(file), ".json"))
		event, published := events[eventType]
		if !published {
			a.t.Fatalf("%s has a schema, and no published event", eventType)
		}
		a.takes(a.signed(event.ID, event.Body, time.Now()))
		ids = append(ids, event.ID)
	}
	return ids
}

// publishedEvents returns the first published event of each type, byte for byte.
func publishedEvents(t *testing.T) map[domain.EventType]domain.Event {
	t.Helper()
	first := make(map[domain.EventType]domain.Event)
	for _, file := range []string{"events.json", "notices.json"} {
		text, err := os.ReadFile("../../schemas/vectors/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var bodies []json.RawMessage
		if err := json.Unmarshal(text, &bodies); err != nil {
			t.Fatal(err)
		}
		for _, body := range bodies {
			event := domain.Event{Body: body}
			if err := json.Unmarshal(body, &event); err != nil {
				t.Fatal(err)
			}
			if _, has := first[event.Type]; !has {
				first[event.Type] = event
			}
		}
	}
	return first
}

// repeats posts events more than once, in sequence and concurrently. Each must be accepted, and
// processed once.
func (a *receiverApp) repeats() []string {
	again, beside := a.good(), a.good()
	later := time.Now().Add(5 * time.Second)
	a.takes(again, again, a.signed(again.id, again.body, later, "whsec_new", a.held[1]))
	var posting sync.WaitGroup
	for range 16 {
		posting.Go(func() { a.takes(beside) })
	}
	posting.Wait()
	return []string{again.id, beside.id}
}

// rotated adds a secret to the file, which must be accepted without a restart.
func (a *receiverApp) rotated() []string {
	file, err := os.OpenFile(filepath.Join(a.own, "secrets"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := file.WriteString("whsec_after_a_rotation\n"); err != nil {
		a.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		a.t.Fatal(err)
	}
	event := a.pays("wat_1")
	a.eventually("the new secret is taken", func() error {
		d := a.signed(event.ID, event.Body, time.Now(), "whsec_after_a_rotation")
		if status, says := a.post(d); status != http.StatusOK {
			return fmt.Errorf("answered %d: %s", status, says)
		}
		return nil
	})
	return []string{event.ID}
}

func (a *receiverApp) reordered() (ids []string) {
	var hooks []hook
	for range 5 {
		hooks = append(hooks, a.good())
	}
	for i, place := range []int{3, 0, 4, 2, 1} {
		hooks[i].header.Set("Webhook-Sequence", strconv.Itoa(i+1))
		a.takes(hooks[place])
		ids = append(ids, hooks[place].id)
	}
	return ids
}

// paidTwice posts the two events of a payment that two watches match. They are one credit.
func (a *receiverApp) paidTwice() []string {
	first := a.pays("wat_1")
	a.sent--
	second := a.pays("wat_2")
	if first.ID == second.ID {
		a.t.Fatal("two watches make two events")
	}
	a.takes(a.signed(first.ID, first.Body, time.Now()), a.signed(second.ID, second.Body, time.Now()))
	done := a.awaits(first.ID, second.ID)
	if got := done.Credits[strconv.Itoa(1000+a.sent)]; got != strconv.Itoa(a.sent) {
		a.t.Errorf("of a payment of %d stroops %q were credited", a.sent, got)
	}
	return []string{first.ID, second.ID}
}

// sample posts the payment that `lumenhook endpoints test` sends. It must be processed without a
// credit.
func (a *receiverApp) sample() []string {
	event := domain.NewSampleEvent("evt_sample", time.Now().UnixMilli())
	a.takes(a.signed(event.ID, event.Body, time.Now()))
	if credited, is := a.awaits(event.ID).Credits["0"]; is {
		a.t.Errorf("of a sample %q were credited", credited)
	}
	return []string{event.ID}
}

// awaits waits until the given events are processed, regardless of others.
func (a *receiverApp) awaits(ids ...string) (done receiverDone) {
	a.t.Helper()
	a.eventually("events are processed", func() (err error) {
		if done, err = a.processed(); err != nil {
			return err
		}
		for _, id := range ids {
			if !slices.Contains(done.Events, id) {
				return fmt.Errorf("%s is not", id)
			}
		}
		return nil
	})
	return done
}

// setsAside posts an event that can't be processed. It must not hold up the next one.
func (a *receiverApp) setsAside() []string {
	event := a.pays("wat_1")
	var envelope map[string]json.RawMessage
	if err := json.Unmarshal(event.Body, &envelope); err != nil {
		a.t.Fatal(err)
	}
	envelope["data"] = json.RawMessage(`{"payment":{"id":"9"}}`)
	body, err := json.Marshal(envelope)
	if err != nil {
		a.t.Fatal(err)
	}
	next := a.good()
	a.takes(a.signed(event.ID, body, time.Now()), next)
	a.awaits(next.id)
	return []string{next.id}
}

// fromTheProgram pays the wallet of the service's watch, so that the service delivers the event
// over HTTPS.
func (a *receiverApp) fromTheProgram(s *testService) []string {
	out, err := s.tryCLI("devnet", "pay", "--to", a.wallet, "--amount", "2.5", "--json")
	if err != nil {
		a.t.Fatal(err)
	}
	var paid struct{ ID string }
	if err := json.Unmarshal([]byte(out), &paid); err != nil {
		a.t.Fatal(err)
	}
	a.eventually("the payment is credited", func() error {
		done, err := a.processed()
		if err != nil {
			return err
		}
		if got := done.Credits[paid.ID]; got != "25000000" {
			return fmt.Errorf("credited are %q", got)
		}
		return nil
	})
	// Read again, because an example reads its events before its credits.
	done, err := a.processed()
	if err != nil {
		a.t.Fatal(err)
	}
	return done.Events[len(done.Events)-1:]
}

// answersFirst checks that events are answered while no worker runs, survive a kill, and are
// processed by the next process.
func (a *receiverApp) answersFirst(before []string) (ids []string) {
	a.start("off")
	for range 3 {
		d := a.good()
		a.takes(d, d)
		ids = append(ids, d.id)
	}
	a.processes(before)
	a.process.kill()
	a.start("on")
	a.processes(slices.Concat(before, ids))
	return ids
}

// killedAtWork kills the example while events arrive. The next process must process the ones that
// were answered without receiving them again. When all are sent again, each must be processed once.
func (a *receiverApp) killedAtWork(before []string) (ids []string) {
	hooks := make(chan hook, 60)
	var all []hook
	for range cap(hooks) {
		d := a.good()
		all = append(all, d)
		ids = append(ids, d.id)
		hooks <- d
	}
	close(hooks)
	var mu sync.Mutex
	var answered []string
	var posting errgroup.Group
	for range 4 {
		posting.Go(func() error {
			for d := range hooks {
				status, _ := a.post(d)
				mu.Lock()
				if status == http.StatusOK {
					answered = append(answered, d.id)
				}
				enough := len(answered) == 20
				mu.Unlock()
				if enough {
					a.process.kill()
				}
			}
			return nil
		})
	}
	_ = posting.Wait() // the functions return no errors
	if len(answered) < 20 || len(answered) > 30 {
		a.t.Errorf("%d events were answered around the kill, and not 20 or a few more", len(answered))
	}
	a.start("on")
	a.awaits(answered...)
	a.takes(all...)
	a.processes(slices.Concat(before, ids))
	return ids
}
