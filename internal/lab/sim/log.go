package sim

import (
	"errors"
	"hash/fnv"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// errFenced is returned to a former owner of a transactional id.
var errFenced = errors.New("sim: another has taken over the transactional id")

// transactionTimeoutMillis is when the log aborts an open transaction.
const transactionTimeoutMillis = 10_000

// Log simulates the brokers with Kafka's rules: topics, transactions and the offsets of one group.
// A transaction writes to several partitions. In each of them, its records count from its marker
// on, which is a record with an offset of its own.
type Log struct {
	keyed      int32 // partitions of keyed topics
	place      func(key string) int32
	partitions map[topicPartition]*partition
	positions  map[topicPartition]int64
	producers  map[string]*producer
	stands     func([]kafka.Record)
}

type topicPartition struct {
	topic     string
	partition int32
}

type partition struct {
	start   int64 // retention has deleted everything before it
	entries []entry
	spans   []*span // of transactions, oldest first
}

type entry struct {
	record  kafka.Record
	control bool
	span    *span // nil if written outside of transactions
}

// span is the part of a transaction in one partition.
type span struct {
	id    string // transactional id
	at    topicPartition
	first int64
	fate  fate
}

type fate uint8

const (
	fateOpen fate = iota
	fateCommitted
	fateAborted
)

type producer struct {
	epoch int
	txn   *transaction
}

func (p *producer) fences(epoch int) bool { return p.epoch != epoch }

type transaction struct {
	began     int64 // by the steady clock
	spans     []*span
	records   []kafka.Record
	positions map[topicPartition]int64
	decided   bool // committed; markers may be missing
}

func newLog(keyed int32) *Log {
	l := &Log{
		keyed:      keyed,
		partitions: make(map[topicPartition]*partition),
		positions:  make(map[topicPartition]int64),
		producers:  make(map[string]*producer),
		stands:     func([]kafka.Record) {},
	}
	l.place = func(key string) int32 {
		h := fnv.New32a()
		h.Write([]byte(key))
		return int32(h.Sum32() % uint32(keyed))
	}
	for _, t := range schemas.Topics() {
		for p := range l.count(t.Name) {
			l.partitions[topicPartition{t.Name, p}] = &partition{}
		}
	}
	return l
}

func (l *Log) count(topic string) int32 {
	if topic == schemas.TopicLedgers {
		return 1
	}
	return l.keyed
}

func (l *Log) offsets(topic string, of func(topicPartition) int64) map[int32]int64 {
	by := make(map[int32]int64)
	for p := range l.count(topic) {
		by[p] = of(topicPartition{topic, p})
	}
	return by
}

func (w *World) partitionOf(aggregate string) int32 {
	return w.log.partitionOf(schemas.TopicJournal, aggregate)
}

func (l *Log) partitionOf(topic, key string) int32 {
	if l.count(topic) == 1 {
		return 0
	}
	return l.place(key)
}

func (l *Log) write(at topicPartition, r kafka.Record, s *span) kafka.Record {
	p := l.partitions[at]
	r.Topic, r.Partition, r.Offset = at.topic, at.partition, int64(len(p.entries))
	p.entries = append(p.entries, entry{record: r, span: s})
	return r
}

func (l *Log) bounds(at topicPartition) (start, end int64) {
	return l.partitions[at].start, l.end(at)
}

// end returns the high watermark.
func (l *Log) end(at topicPartition) int64 { return int64(len(l.partitions[at].entries)) }

// stable returns the last stable offset. Everything after it is undecided.
func (l *Log) stable(at topicPartition) int64 {
	p := l.partitions[at]
	for _, s := range p.spans {
		if s.fate == fateOpen {
			return s.first
		}
	}
	return l.end(at)
}

// read returns committed records from an offset on, and the offset to read next. Control records
// and aborted records also advance it.
func (l *Log) read(at topicPartition, from int64, most int) (records []kafka.Record, next int64) {
	p, stable := l.partitions[at], l.stable(at)
	for next = from; next < stable && len(records) < most; next++ {
		e := p.entries[next]
		if !e.control && (e.span == nil || e.span.fate == fateCommitted) {
			records = append(records, e.record)
		}
	}
	return records, next
}

func (l *Log) append(r kafka.Record) {
	at := topicPartition{r.Topic, l.partitionOf(r.Topic, string(r.Key))}
	l.stands([]kafka.Record{l.write(at, r, nil)})
}

// takeOver makes the caller the owner of a transactional id. It aborts a former owner's open
// transaction and completes a committed one.
func (l *Log) takeOver(id string) (epoch int) {
	p := l.producer(id)
	l.resolve(p)
	p.epoch++
	return p.epoch
}

// producer returns the producer of a transactional id. It creates one if necessary.
func (l *Log) producer(id string) *producer {
	p := l.producers[id]
	if p == nil {
		p = &producer{}
		l.producers[id] = p
	}
	return p
}

func (l *Log) resolve(p *producer) {
	switch {
	case p.txn == nil:
	case p.txn.decided:
		for l.markNext(p) {
		}
	default:
		l.abort(p)
	}
}

// abort aborts a transaction. Partitions with a commit marker stay committed.
func (l *Log) abort(p *producer) {
	for _, s := range p.txn.spans {
		if s.fate == fateOpen {
			l.mark(s, fateAborted)
		}
	}
	p.txn = nil
}

func (l *Log) mark(s *span, f fate) {
	s.fate = f
	p := l.partitions[s.at]
	p.entries = append(p.entries, entry{control: true})
	kept := p.spans[:0]
	for _, other := range p.spans {
		if other.fate == fateOpen {
			kept = append(kept, other)
		}
	}
	p.spans = kept
}

func (l *Log) byKey(records []kafka.Record) []kafka.Record {
	for i, r := range records {
		records[i].Partition = l.partitionOf(r.Topic, string(r.Key))
	}
	return records
}

// produce writes the records of a transaction, undecided, and returns the offsets after the last
// one of each topic.
func (l *Log) produce(
	id string, epoch int, records []kafka.Record, positions map[topicPartition]int64,
	nowMillis int64,
) (ends map[string]int64, err error) {
	p := l.producer(id)
	if p.fences(epoch) {
		return nil, errFenced
	}
	l.resolve(p) // the previous transaction may lack markers
	t := &transaction{began: nowMillis, positions: positions}
	spans := make(map[topicPartition]*span)
	ends = make(map[string]int64)
	for _, r := range records {
		at := topicPartition{r.Topic, r.Partition}
		s := spans[at]
		if s == nil {
			s = &span{id: id, at: at, first: l.end(at)}
			spans[at] = s
			t.spans = append(t.spans, s)
			l.partitions[at].spans = append(l.partitions[at].spans, s)
		}
		r = l.write(at, r, s)
		t.records = append(t.records, r)
		ends[r.Topic] = r.Offset + 1
	}
	p.txn = t
	return ends, nil
}

// decide commits a transaction. markNext writes its markers later.
func (l *Log) decide(id string, epoch int) error {
	p := l.producers[id]
	if p.fences(epoch) || p.txn == nil {
		return errFenced
	}
	p.txn.decided = true
	l.stands(p.txn.records)
	return nil
}

// markNext writes the next marker of a committed transaction or, after the last one, the group's
// offsets. It reports whether any are left.
func (l *Log) markNext(p *producer) bool {
	for _, s := range p.txn.spans {
		if s.fate == fateOpen {
			l.mark(s, fateCommitted)
			return true
		}
	}
	for at, offset := range p.txn.positions {
		l.positions[at] = offset
	}
	p.txn = nil
	return false
}

// unmarked returns the transactional ids of committed transactions with missing markers.
func (l *Log) unmarked(ids []string) (some []string) {
	for _, id := range ids {
		if p := l.producers[id]; p != nil && p.txn != nil && p.txn.decided {
			some = append(some, id)
		}
	}
	return some
}

func (l *Log) busy() bool {
	for _, p := range l.producers {
		if p.txn != nil {
			return true
		}
	}
	return false
}

// expire aborts transactions that have been open for too long, and fences their owners.
func (l *Log) expire(ids []string, nowMillis int64) {
	for _, id := range ids {
		p := l.producers[id]
		if p != nil && p.txn != nil && !p.txn.decided &&
			nowMillis-p.txn.began > transactionTimeoutMillis {
			l.abort(p)
			p.epoch++
		}
	}
}
