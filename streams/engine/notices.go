package engine

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// Timer groups of notices: those to be ordered, and ordered ones whose answer may not arrive.
const (
	groupMails  = "mails"
	groupOrders = "orders"
)

// ordersAtOnce bounds a partition's unanswered orders. A burst of disabled endpoints queues here,
// not at a mail server that is down.
const ordersAtOnce = 32

// mails counts a partition's notices. While no mail server is available, it allows one order at a
// time, to detect when there is one again.
type mails struct {
	pending  int // unsettled
	ordered  int // unanswered
	taken    []store.Claimed
	unserved int   // consecutive answers that no mail server is available
	resume   int64 // when to order again in that case
}

func (m *mails) allowed() int {
	if m.unserved > 0 {
		return 1 - m.ordered - len(m.taken)
	}
	return ordersAtOnce - m.ordered - len(m.taken)
}

func (m *mails) noteChange(before, after domain.Notice) {
	count := func(n domain.Notice, by int) {
		if n.Exists() {
			m.pending += by
		}
		if n.State == domain.NoticeOrdered {
			m.ordered += by
		}
	}
	count(before, -1)
	count(after, 1)
}

func (m *mails) noteAnswer(answer domain.MailAnswer, nowMillis int64) {
	if answer != domain.MailUnserved {
		m.unserved = 0
		return
	}
	m.unserved++
	m.resume = nowMillis + domain.MailWait(m.unserved)
}

// allowMails returns how many notices of a group may be claimed now. Ordered ones have their
// places.
func (r *round) allowMails(group string) int {
	if group == groupOrders {
		return max(0, ordersAtOnce-len(r.mails.taken))
	}
	if r.mails.unserved > 0 && r.mails.resume > r.nowMillis {
		r.delayed.add(r.mails.resume, groupMails)
		return 0
	}
	return max(0, r.mails.allowed())
}

func (s *state) notice(r reader, id string) (domain.Notice, error) {
	return load(r, spaceNotice, id, schemas.UnmarshalNotice)
}

func (s *state) foldNotice(
	batch *store.Batch, f domain.Fact,
) (before, after domain.Notice, err error) {
	id := domain.NoticeID(f.Aggregate, f.Notice())
	if before, err = s.notice(batch, id); err != nil {
		return before, after, err
	}
	after = domain.EvolveNotice(before, f)
	if before.Exists() {
		if err := batch.ClearTimer(noticeGroup(before), before.NextAtMillis, id); err != nil {
			return before, after, err
		}
	}
	if !after.Exists() {
		return before, after, batch.Delete(keyOf(spaceNotice, id))
	}
	if err := batch.SetTimer(noticeGroup(after), after.NextAtMillis, id); err != nil {
		return before, after, err
	}
	return before, after, batch.Set(keyOf(spaceNotice, id), schemas.MarshalNotice(after))
}

func noticeGroup(n domain.Notice) string {
	if n.State == domain.NoticeOrdered {
		return groupOrders
	}
	return groupMails
}

func (m *machine) countNotices(t *task.Turn) error {
	return t.Batch.Scan([]byte{spaceNotice}, []byte{spaceNotice + 1},
		func(_, value []byte) (bool, error) {
			n, err := schemas.UnmarshalNotice(value)
			m.scheduler.mails.noteChange(domain.Notice{}, n)
			return err == nil, err
		})
}

func (m *machine) orderMails(t *task.Turn) error {
	taken := m.scheduler.mails.taken
	m.scheduler.mails.taken = nil
	for _, c := range taken {
		notice, err := m.state.notice(t.Batch, c.ID)
		if err != nil {
			return err
		}
		if !notice.Exists() || notice.NextAtMillis != c.DueMillis {
			continue // answered in this turn
		}
		endpoint, err := m.state.endpoint(t.Batch, notice.EndpointID)
		if err != nil {
			return err
		}
		facts := domain.DecideMail(endpoint, notice, t.NowMillis)
		if err := m.record(t, notice.EndpointID, "", facts...); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) order(t *task.Turn, notice domain.Notice) error {
	endpoint, err := m.state.endpoint(t.Batch, notice.EndpointID)
	if err != nil {
		return err
	}
	order := schemas.EncodeMailOrder(notice.Order(endpoint))
	t.Append(kafka.NewRecord(
		schemas.TopicMails, notice.EndpointID, order.Value, order.EachHeader))
	return nil
}

func (m *machine) recordMail(t *task.Turn, c domain.Command, body domain.RecordMail) error {
	notice, err := m.state.notice(t.Batch, domain.NoticeID(body.EndpointID, body.Notice))
	if err != nil {
		return err
	}
	facts := domain.DecideMailAnswer(notice, body, t.NowMillis)
	if len(facts) > 0 {
		m.scheduler.mails.noteAnswer(body.Answer, t.NowMillis)
	}
	return m.record(t, body.EndpointID, c.ID, facts...)
}

func (m *machine) reportMailAbandoned(f domain.Fact) {
	made, ok := f.Body.(domain.MailAttempted)
	if ok && made.Outcome == domain.MailGivenUp {
		m.cfg.Logger.Error("gave up on a mail about a disabled endpoint: servers refused it for too "+
			"long, or the event is too old", "endpoint", f.Aggregate,
			"mail", domain.NoticeID(f.Aggregate, made.Notice), "tries", made.Number-1)
	}
}
