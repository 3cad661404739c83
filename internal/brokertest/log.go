package brokertest

import (
	"slices"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Log reads topics for tests that need their contents repeatedly. It keeps its clients open and
// fetches each record once. Otherwise, three brokers that share two cores with the test would spend
// most of their time on fetches.
type Log struct {
	t       testing.TB
	cluster kafka.Cluster

	mu     sync.Mutex
	ends   *kafka.Ends
	topics map[string]*topicLog
}

type topicLog struct {
	reader  *kafka.Reader
	records []kafka.Record
}

// NewLog returns a Log of a cluster. It is closed when the test ends.
func NewLog(t testing.TB, cluster kafka.Cluster) *Log {
	l := &Log{t: t, cluster: cluster, topics: make(map[string]*topicLog)}
	t.Cleanup(l.close)
	return l
}

// Read returns all records of a topic that have been committed so far. The caller must not modify
// them.
func (l *Log) Read(topic string) []kafka.Record {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	until := l.endsOf(topic)
	known := l.topics[topic]
	if known == nil {
		known = l.open(topic)
	}
	err := known.reader.ReadTo(l.t.Context(), topic, until, 1000, func(r kafka.Record) error {
		known.records = append(known.records, r)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return slices.Clip(known.records)
}

func (l *Log) endsOf(topic string) map[int32]int64 {
	l.t.Helper()
	if l.ends == nil {
		var err error
		if l.ends, err = l.cluster.NewEnds(); err != nil {
			l.t.Fatal(err)
		}
	}
	until, err := l.ends.Of(l.t.Context(), topic)
	if err != nil {
		l.t.Fatal(err)
	}
	return until
}

func (l *Log) open(topic string) *topicLog {
	l.t.Helper()
	from, err := l.ends.Starts(l.t.Context(), topic)
	if err != nil {
		l.t.Fatal(err)
	}
	reader, err := l.cluster.NewReader(kafka.ReaderConfig{From: kafka.Offsets{topic: from}})
	if err != nil {
		l.t.Fatal(err)
	}
	l.topics[topic] = &topicLog{reader: reader}
	return l.topics[topic]
}

func (l *Log) close() {
	if l.ends != nil {
		l.ends.Close()
	}
	for _, known := range l.topics {
		known.reader.Close()
	}
}
