package domain_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

var record = flag.Bool("record", false,
	"write the transcripts of the stories anew, to be read before they are committed")

// TestStories plays the stories of the specification's "States and transitions".
// A line that begins with > is an input, and the lines after it are the results. Times are
// relative to the beginning of the story. The inputs are:
//
//	match E | test           an event, or an event called test.ping
//	attempt E STATUS [ERROR] the next attempt of E, when it is due
//	run E STATUS [ERROR]     attempts until E settles; shows only the last
//	runs N E STATUS          the same for N separate events
//	outcome E STATUS         the outcome of an attempt that was in flight
//	order N                  the mail about the Nth disabling, when it is due
//	answer N ANSWER [ORDER]  a mailer's answer to its latest order, or to another
//	tries N ANSWER           orders with that answer until it settles, or for a month
//	enable|disable|delete|rotate S|replay [SINCE]|resend E [TO]|sweep|wait DURATION|secrets
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var told strings.Builder
			n := &narrator{story: newStory(), to: &told}
			for line := range strings.Lines(string(want)) {
				switch {
				case strings.HasPrefix(line, "#"):
					told.WriteString(line)
				case strings.HasPrefix(line, "> "):
					told.WriteString(line)
					n.tell(t, strings.Fields(line)[1:])
				}
			}
			if *record {
				if err := os.WriteFile(file, []byte(told.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if told.String() != string(want) {
				t.Errorf("is told otherwise:\n%s", told.String())
			}
		})
	}
}

type narrator struct {
	*story
	to *strings.Builder
}

func (n *narrator) tell(t *testing.T, words []string) {
	t.Helper()
	command := func(body domain.CommandBody) {
		facts, rejection := domain.DecideEndpoint(n.endpoint, n.command(body), n.nowMillis)
		n.happens(rejection, facts...)
	}
	switch words[0] {
	case "match":
		m := matched(words[1])
		m.Event.CreatedAtMillis = n.nowMillis
		n.happens(nil,
			domain.DecideMatch(n.endpoint, n.deliveries[words[1]],
				domain.MatchInput{
					AccountID:  m.AccountID,
					EndpointID: m.EndpointID,
					WatchID:    m.WatchID,
					Event:      m.Event,
				})...)
	case "attempt":
		if facts := n.due(idOf(words[1]), resultOf(t, words[2:])); len(facts) > 0 {
			n.happens(nil, facts...)
		}
	case "outcome":
		n.happens(nil, n.decideAttempt(words[1], resultOf(t, words[2:]))...)
	case "run":
		n.happens(nil, n.run(idOf(words[1]), resultOf(t, words[2:]))...)
	case "runs":
		count, err := strconv.Atoi(words[1])
		if err != nil {
			t.Fatal(err)
		}
		for i := range count {
			id := fmt.Sprint(words[2], i+1)
			n.given(matched(id))
			n.happens(nil, n.run(id, resultOf(t, words[3:]))...)
		}
	case "test":
		facts, rejection := domain.DecideTest(n.endpoint, domain.Delivery{},
			n.command(domain.TestEndpoint{}), n.nowMillis)
		n.happens(rejection, facts...)
	case "order":
		n.happens(nil, n.order(t, words[1])...)
	case "answer":
		n.happens(nil, n.answer(t, words[1:])...)
	case "tries":
		n.tries(t, words[1:])
	case "enable":
		command(domain.EnableEndpoint{})
	case "disable":
		command(domain.DisableEndpoint{})
	case "delete":
		command(domain.DeleteEndpoint{})
	case "rotate":
		command(domain.RotateSecret{SealedSecret: []byte(words[1])})
	case "replay":
		n.replay(t, words[1:])
	case "resend":
		body := domain.ResendEvent{
			EndpointID: endpointID,
			EventID:    words[1],
			Remembered: &domain.Remembered{Body: []byte(words[1])},
		}
		if len(words) > 2 {
			body.ToEndpointID = words[2]
		}
		facts, rejection := domain.DecideResend(n.endpoint, n.deliveries[words[1]], ownAccount, body,
			false, n.nowMillis)
		n.happens(rejection, facts...)
	case "sweep":
		for _, id := range slices.Sorted(maps.Keys(n.deliveries)) {
			if facts := domain.DecideCancel(n.endpoint, n.deliveries[id]); len(facts) > 0 {
				n.happens(nil, facts...)
			}
		}
	case "wait":
		n.nowMillis += durationOf(t, words[1]).Milliseconds()
	case "secrets":
		var names []string
		for _, s := range n.endpoint.ValidSecrets(n.nowMillis) {
			names = append(names, string(s.Sealed))
		}
		n.say("signed with %s", strings.Join(names, ", "))
	default:
		t.Fatalf("a story cannot %q", words[0])
	}
}

func (n *narrator) replay(t *testing.T, words []string) {
	c := domain.ReplayEndpoint{EndpointID: endpointID}
	if len(words) > 0 {
		c.SinceMillis = startedAt + durationOf(t, words[0]).Milliseconds()
	}
	oldestFirst := slices.SortedFunc(maps.Values(n.deliveries),
		func(a, b domain.Delivery) int { return int(a.Version) - int(b.Version) })
	facts, result, rejection := domain.DecideReplay(n.endpoint, ownAccount, c, oldestFirst, 0,
		n.nowMillis)
	n.happens(rejection, facts...)
	n.say("queued %d of %d", result.Queued, result.Matched)
}

// due decides the next attempt when it is due.
func (n *narrator) due(eventID string, r domain.AttemptResult) []domain.FactBody {
	d := n.deliveries[eventID]
	if !n.endpoint.Sends() {
		n.say("%s is held", n.nameOf(d))
		return nil
	}
	if d.EndpointEpoch == n.endpoint.Epoch {
		n.nowMillis = max(n.nowMillis, d.NextAttemptAtMillis)
	}
	return n.decideAttempt(eventID, r)
}

func (n *narrator) notice(t *testing.T, word string) (version uint64, notice domain.Notice) {
	t.Helper()
	at, err := strconv.Atoi(word)
	versions := slices.Sorted(maps.Keys(n.notices))
	if err != nil || at > len(versions) {
		t.Fatalf("there is no notice %q", word)
	}
	return versions[at-1], n.notices[versions[at-1]]
}

func (n *narrator) order(t *testing.T, word string) []domain.FactBody {
	t.Helper()
	_, notice := n.notice(t, word)
	n.nowMillis = max(n.nowMillis, notice.NextAtMillis)
	return domain.DecideMail(n.endpoint, notice, n.nowMillis)
}

func (n *narrator) answer(t *testing.T, words []string) []domain.FactBody {
	t.Helper()
	version, notice := n.notice(t, words[0])
	c := notice.Order(n.endpoint).Answered(domain.MailAnswer(words[1]), domain.MailDone{})
	c.Notice = version
	if len(words) > 2 {
		number, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatal(err)
		}
		c.Number = number
	}
	return domain.DecideMailAnswer(notice, c, n.nowMillis)
}

// tries records only the last answer.
func (n *narrator) tries(t *testing.T, words []string) {
	t.Helper()
	const month = 30 * 24 * 3_600_000
	for began := n.nowMillis; ; {
		n.given(n.order(t, words[0])...)
		facts := n.answer(t, words)
		if facts[0].(domain.MailAttempted).Outcome != domain.MailRetried ||
			n.nowMillis-began > month {
			n.happens(nil, facts...)
			return
		}
		n.given(facts...)
	}
}

// run folds all attempts of a run except the last, and returns the last one's facts.
func (n *narrator) run(eventID string, r domain.AttemptResult) []domain.FactBody {
	for {
		facts := n.due(eventID, r)
		if len(facts) == 0 || facts[0].(domain.AttemptMade).State != domain.StateWaiting {
			return facts
		}
		n.given(facts...)
	}
}

// happens folds facts and records each of them, or the rejection.
func (n *narrator) happens(rejection *domain.Rejection, bodies ...domain.FactBody) {
	switch {
	case rejection != nil:
		n.say("rejected: %s", rejection.Code)
	case len(bodies) == 0:
		n.say("nothing changes")
	}
	for _, body := range bodies {
		n.causedBy("cmd_1", body)
		id := eventOf(body)
		switch b := body.(type) {
		case domain.MailOrdered:
			n.say("MailOrdered: order %d, again at %s", b.Number, n.since(b.NextAtMillis))
			continue
		case domain.MailAttempted:
			n.say("MailAttempted: order %d, %s%s", b.Number, b.Outcome, n.nextAt(b.NextAtMillis))
			continue
		default: // recorded below
		}
		if id == "" {
			e := n.endpoint
			status := strings.TrimSpace(fmt.Sprint(e.Status, " ", e.DisabledReason))
			n.say("%s: endpoint %s, secrets %d, streak %d", body.FactType(), status, len(e.Secrets),
				e.ConsecutiveFailures)
			continue
		}
		d := n.deliveries[id]
		next := ""
		if d.State.Pending() {
			next = ", next at " + n.since(d.NextAttemptAtMillis)
		}
		n.say("%s: %s %s, attempts %d, in run %d: %d, streak %d%s", body.FactType(), n.nameOf(d), d.State,
			d.Attempts, d.Run, d.RunAttempts, n.endpoint.ConsecutiveFailures, next)
	}
}

func (n *narrator) nameOf(d domain.Delivery) string {
	if d.EventType == domain.TestPing {
		return "test.ping"
	}
	return d.EventID
}

// idOf returns the id of the event that a story calls by a name.
func idOf(name string) string {
	if name == "test.ping" {
		return domain.TestEventID("cmd_1")
	}
	return name
}

func (n *narrator) since(atMillis int64) string {
	return (time.Duration(atMillis-startedAt) * time.Millisecond).String()
}

func (n *narrator) nextAt(atMillis int64) string {
	if atMillis == 0 {
		return ""
	}
	return ", next at " + n.since(atMillis)
}

func (n *narrator) say(format string, args ...any) {
	fmt.Fprintf(n.to, "%14s  %s\n", n.since(n.nowMillis), fmt.Sprintf(format, args...))
}

func resultOf(t *testing.T, words []string) domain.AttemptResult {
	t.Helper()
	status, err := strconv.Atoi(words[0])
	if err != nil {
		t.Fatal(err)
	}
	r := domain.AttemptResult{StatusCode: status}
	if len(words) > 1 {
		r.Error = domain.AttemptError(words[1])
	}
	return r
}

func durationOf(t *testing.T, word string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(word)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
