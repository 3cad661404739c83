package broker

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A hold delays a request before it is handled, so that a test can kill the process or change
// something in a window that normally lasts microseconds. The file Config.HoldFile names the next
// hold. It contains one line, and is removed when a request is held:
//
//	append TOPIC DURATION     a write to a topic: earlier writes are complete
//	commit ID DURATION        the end of a transaction: its records are written,
//	                          but neither committed nor aborted
//	positions ID DURATION     the offsets of a transaction, just before its end
//
// TOPIC is a suffix of the topic's name. ID is a part of the transactional id.
type hold struct {
	kind   kmsg.Key
	name   string
	length time.Duration
}

// longestHold limits a hold. It is longer than the longest transaction.
const longestHold = time.Minute

var holdKinds = map[string]kmsg.Key{
	"append": kmsg.Produce, "commit": kmsg.EndTxn, "positions": kmsg.TxnOffsetCommit,
}

func parseHold(line string) (hold, error) {
	parts := strings.Fields(line)
	if len(parts) != 3 {
		return hold{}, errors.New("must be KIND NAME DURATION")
	}
	kind, known := holdKinds[parts[0]]
	if !known {
		return hold{}, fmt.Errorf("%q is not append, commit or positions", parts[0])
	}
	length, err := time.ParseDuration(parts[2])
	if err != nil || length <= 0 || length > longestHold {
		return hold{}, fmt.Errorf("%q is not a duration of at most %s", parts[2], longestHold)
	}
	return hold{kind: kind, name: parts[1], length: length}, nil
}

func (b *Broker) holdRequests(file string) {
	for _, kind := range holdKinds {
		b.cluster.ControlKey(kind.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if h, ok := b.takeHold(file, req); ok {
				b.log.slog.Warn("FAULT: a request is held", "kind", h.kind.Name(), "name", h.name,
					"for", h.length)
				b.cluster.SleepControl(func() {
					time.Sleep(h.length) //nolint:forbidigo // the fault is a wait
				})
			}
			return nil, nil, false
		})
	}
}

// takeHold reports whether req is to be held, and if so removes the file. It also removes an
// invalid file, and logs the error.
func (b *Broker) takeHold(file string, req kmsg.Request) (hold, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return hold{}, false // no hold
	}
	h, err := parseHold(string(text))
	if err == nil && !b.concerns(h, req) {
		return hold{}, false
	}
	removed := os.Remove(file)
	if err = errors.Join(err, removed); err != nil {
		b.log.slog.Error("FAULT: cannot hold a request",
			"file", file, "error", err)
	}
	return h, err == nil
}

func (b *Broker) concerns(h hold, req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		return h.kind == kmsg.Produce && b.writesTo(r, h.name)
	case *kmsg.EndTxnRequest:
		return h.kind == kmsg.EndTxn && r.Commit && strings.Contains(r.TransactionalID, h.name)
	case *kmsg.TxnOffsetCommitRequest:
		return h.kind == kmsg.TxnOffsetCommit && strings.Contains(r.TransactionalID, h.name)
	}
	return false
}

func (b *Broker) writesTo(r *kmsg.ProduceRequest, suffix string) bool {
	for _, t := range r.Topics {
		name := t.Topic
		if name == "" {
			if info := b.cluster.TopicIDInfo(t.TopicID); info != nil {
				name = info.Topic
			}
		}
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}
