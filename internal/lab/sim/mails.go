package sim

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// mailerProcess is the only process with the mailer role. Like package mailer, it takes an order,
// sends its mail, records the answer, and then commits its offset, one step each. A crash between
// two steps loses the work in progress.
type mailerProcess struct {
	member
	world  *World
	next   map[int32]int64 // positions by partition
	record kafka.Record
	order  domain.MailOrder // current order; none if its Number is 0
	answer domain.MailAnswer
	told   bool // the answer is in the log
	// answered remembers its answers by order.
	answered map[string]domain.MailAnswer
	crashes  int
}

// mailAnswers are the mail server's answers. Without faults it accepts everything.
var mailAnswers = []domain.MailAnswer{
	domain.MailTaken, domain.MailTaken, domain.MailDeferred, domain.MailUnserved,
	domain.MailDeclined,
}

type handed struct {
	number  int
	crashes int // crashes of the mailer until then
}

func (m *mailerProcess) boot() {
	m.alive, m.next = true, make(map[int32]int64)
	m.answered = make(map[string]domain.MailAnswer)
	for p := range m.world.setup.partitions {
		m.next[p] = m.world.log.positions[topicPartition{schemas.TopicMails, p}]
	}
	m.world.tracef("the mailer boots")
}

func (m *mailerProcess) crash() {
	m.alive, m.order, m.answer, m.told = false, domain.MailOrder{}, "", false
	m.crashes++
	m.world.tracef("the mailer is dead")
}

func (w *World) crashMailer() bool {
	if w.mailer.alive {
		w.count("crashes of the mailer")
		w.mailer.crash()
	}
	return true
}

func (w *World) changeMailServer() bool {
	w.mailServer = mailAnswers[w.rnd.IntN(len(mailAnswers))]
	w.tracef("the mail server now: %s", w.mailServer)
	return true
}

func (w *World) workMailer() bool {
	m := w.mailer
	switch {
	case !m.alive:
		return false
	case m.order.Number == 0:
		return m.take()
	case m.answer == "":
		m.send()
	case !m.told:
		m.tell()
	case w.fault(0.2):
		w.count("answers that are given again")
		m.crash()
	default:
		m.commit()
	}
	return true
}

func (m *mailerProcess) take() bool {
	for p := range m.world.setup.partitions {
		records, next := m.world.log.read(topicPartition{schemas.TopicMails, p}, m.next[p], 1)
		m.next[p] = next
		if len(records) > 0 {
			m.record, m.order = records[0], decode(records[0], schemas.DecodeMailOrder)
			return true
		}
	}
	return false
}

func (m *mailerProcess) send() {
	w := m.world
	key := fmt.Sprintf("%s/%d", m.order.ID(), m.order.Number)
	if m.answer = m.answered[key]; m.answer != "" {
		w.count("orders that were answered before")
		return
	}
	if w.wall() > m.order.UntilMillis {
		w.count("orders whose time was over")
		m.commit()
		return
	}
	m.answer = w.mailServer
	if w.calm {
		m.answer = domain.MailTaken
	}
	m.answered[key] = m.answer
	w.checks.mails.handedOver(w, m.order, m.answer)
	w.tracef("order %d of %s: %s", m.order.Number, short(m.order.ID()), m.answer)
	w.count("mails: " + string(m.answer))
}

func (m *mailerProcess) tell() {
	w := m.world
	c := domain.Command{
		ID: domain.DeriveID(domain.CommandPrefix, "mail", m.order.ID(),
			strconv.Itoa(m.order.Number), string(m.answer)),
		AccountID:      m.order.AccountID,
		IssuedAtMillis: w.wall(),
		Body:           m.order.Answered(m.answer, domain.MailDone{}),
	}
	message := schemas.EncodeCommand(c)
	w.log.append(kafka.NewRecord(schemas.TopicCommands, m.order.EndpointID, message.Value,
		message.EachHeader))
	m.told = true
}

func (m *mailerProcess) commit() {
	m.world.log.positions[topicPartition{schemas.TopicMails, m.record.Partition}] = m.record.Offset + 1
	m.order, m.answer, m.told = domain.MailOrder{}, "", false
}

func (m *mailerProcess) idle() bool {
	for p := range m.world.setup.partitions {
		at := topicPartition{schemas.TopicMails, p}
		if records, _ := m.world.log.read(at, m.next[p], 1); len(records) > 0 {
			return false
		}
	}
	return m.alive && m.order.Number == 0
}

// mailChecks check the outcome of each disabling that no user requested. They record the journal's
// facts about it in a simple form, and the mails that the server received.
type mailChecks struct {
	notices map[string]*referenceNotice
	handed  map[string][]handed                 // mails that the server accepted, by notice
	answers map[mailOrderID][]domain.MailAnswer // of the server
}

type mailOrderID struct {
	notice string
	number int
}

type referenceNotice struct {
	atMillis    int64
	number      int // number of the latest order
	dueAtMillis int64
	firstMillis int64        // time of the first order
	recorded    map[int]bool // orders with an answer in the journal
	settled     domain.MailOutcome
}

func newMailChecks() *mailChecks {
	return &mailChecks{
		notices: make(map[string]*referenceNotice),
		handed:  make(map[string][]handed),
		answers: make(map[mailOrderID][]domain.MailAnswer),
	}
}

func noticeID(endpoint string, version uint64) string {
	return endpoint + "/" + strconv.FormatUint(version, 10)
}

// handedOver records the server's answer. The server may only get a mail twice if the mailer died
// in between, or under another order.
func (c *mailChecks) handedOver(w *World, o domain.MailOrder, answer domain.MailAnswer) {
	id := noticeID(o.EndpointID, o.Notice)
	c.answers[mailOrderID{id, o.Number}] = append(c.answers[mailOrderID{id, o.Number}], answer)
	if answer != domain.MailTaken {
		return
	}
	for _, before := range c.handed[id] {
		if before.number == o.Number && before.crashes == w.mailer.crashes {
			w.violate("order %d of the mail %s is carried out twice", o.Number, id)
		}
		w.count("mails that were doubled")
	}
	c.handed[id] = append(c.handed[id], handed{o.Number, w.mailer.crashes})
}

// apply checks that a fact may happen to a notice.
func (c *mailChecks) apply(w *World, f domain.Fact) error {
	switch b := f.Body.(type) {
	case domain.EndpointDisabled:
		if b.Reason != domain.DisabledManual {
			c.notices[noticeID(f.Aggregate, f.Version)] = &referenceNotice{
				atMillis:    f.AtMillis,
				dueAtMillis: f.AtMillis,
				recorded:    make(map[int]bool),
			}
			w.count("disablings to be told of")
		}
	case domain.MailOrdered:
		id := noticeID(f.Aggregate, b.Notice)
		return c.notices[id].order(w, id, f, b)
	case domain.MailAttempted:
		id := noticeID(f.Aggregate, b.Notice)
		if err := c.notices[id].attempt(w, id, f, b); err != nil {
			return err
		}
		if b.Outcome == domain.MailSent && !slices.ContainsFunc(c.handed[id],
			func(h handed) bool { return h.number == b.Number }) {
			return fmt.Errorf("the mail %s is recorded as sent, and no server took it", id)
		}
		w.count("mails recorded: " + string(b.Outcome))
	default: // not about a mail
	}
	return nil
}

func (n *referenceNotice) order(
	w *World, id string, f domain.Fact, b domain.MailOrdered,
) error {
	switch {
	case n == nil:
		return fmt.Errorf("the mail %s is ordered, and is of no disabling to be told of", id)
	case n.settled != "":
		return fmt.Errorf("the mail %s is ordered after it was %s", id, n.settled)
	case b.Number != n.number+1:
		return fmt.Errorf("order %d of the mail %s follows %d", b.Number, id, n.number)
	case f.AtMillis < n.dueAtMillis && !w.setup.jumps:
		return fmt.Errorf("order %d of the mail %s is %d ms early", b.Number, id,
			n.dueAtMillis-f.AtMillis)
	}
	n.number, n.dueAtMillis = b.Number, f.AtMillis+hourMillis+hourMillis/6
	if n.firstMillis == 0 {
		n.firstMillis = f.AtMillis
	}
	return nil
}

func (n *referenceNotice) attempt(
	w *World, id string, f domain.Fact, b domain.MailAttempted,
) error {
	switch {
	case n == nil:
		return fmt.Errorf("the mail %s is of no disabling to be told of", id)
	case n.settled != "":
		return fmt.Errorf("the mail %s is %s after it was %s", id, b.Outcome, n.settled)
	case n.recorded[b.Number] && b.Outcome != domain.MailSent:
		return fmt.Errorf("order %d of the mail %s is answered twice", b.Number, id)
	}
	n.recorded[b.Number] = true
	answers := w.checks.mails.answers[mailOrderID{id, b.Number}]
	had := func(answer domain.MailAnswer) bool { return slices.Contains(answers, answer) }
	switch b.Outcome {
	case domain.MailSent: // limited by the mails that the server accepted
	case domain.MailRetried:
		n.dueAtMillis = b.NextAtMillis
		wait := b.NextAtMillis - f.AtMillis
		if !had(domain.MailDeferred) && !had(domain.MailUnserved) || wait < secondMillis ||
			wait > 5*60*secondMillis {
			return fmt.Errorf("order %d of the mail %s, answered %v, is tried again in %d ms", b.Number,
				id, answers, wait)
		}
		return nil
	case domain.MailRefused:
		if !had(domain.MailDeclined) {
			return fmt.Errorf("the mail %s is recorded as refused, and no server did", id)
		}
	case domain.MailNobody:
		if e := w.checks.reference.endpoints[f.Aggregate]; !e.deleted {
			return fmt.Errorf("nobody is told of %s, whose endpoint is there", id)
		}
	case domain.MailGivenUp:
		old := f.AtMillis-n.atMillis > 7*24*hourMillis
		if tried := n.firstMillis > 0 && f.AtMillis-n.firstMillis >= 72*hourMillis; !old && !tried {
			return fmt.Errorf("the mail %s is given up too soon", id)
		}
	}
	n.settled = b.Outcome
	return nil
}

func (c *mailChecks) ordered(w *World, r kafka.Record) {
	o := decode(r, schemas.DecodeMailOrder)
	n := c.notices[noticeID(o.EndpointID, o.Notice)]
	e := w.checks.reference.endpoints[o.EndpointID]
	switch {
	case n == nil || n.settled != "" || n.number != o.Number:
		w.violate("order %d of %s/%d stands, and the journal has another", o.Number, o.EndpointID,
			o.Notice)
	case o.URL != e.url || o.Enabled != e.active || o.AccountID != e.account:
		w.violate("order %d of %s/%d says another thing of its endpoint", o.Number, o.EndpointID,
			o.Notice)
	}
}

// rested reports whether each disabling was mailed or settled otherwise.
func (c *mailChecks) rested() bool {
	for _, n := range c.notices {
		if n.settled == "" {
			return false
		}
	}
	return true
}

func (m *model) noticeState(s map[string]string, ours func(aggregate string) bool) {
	for id, n := range m.notices {
		if !n.Exists() || !ours(n.EndpointID) {
			continue
		}
		s[stateKey(keyNotice, id)] = string(schemas.MarshalNotice(n))
		group := "mails"
		if n.State == domain.NoticeOrdered {
			group = "orders"
		}
		s[timerKey(group, n.NextAtMillis, id)] = ""
	}
}
