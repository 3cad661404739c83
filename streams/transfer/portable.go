package transfer

import (
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Some entries and records contain offsets of "matches": the first offset of the matches that a
// part of a backfill has appended. The records from there on are copied to the beginning of the new
// topic. A resend contains the journal offset up to which the history had been read. It means
// nothing in another journal, and the request must be repeated. Numbers of handovers are offsets of
// a journal that the copy does not have. Without a number, a handover is identified by its
// delivery.

// portableEntry returns an entry of a state without offsets.
func portableEntry(key, value []byte) ([]byte, error) {
	w, is, err := engine.WatchIn(key, value)
	if err != nil || !is {
		return value, err
	}
	portable := false
	for i := range w.Parts {
		portable = portable || w.Parts[i].MatchesFrom != 0
		w.Parts[i].MatchesFrom = 0
	}
	if !portable {
		return value, nil
	}
	return schemas.MarshalWatch(w), nil
}

// portableRecord returns a record of an input without offsets.
func portableRecord(r kafka.Record) kafka.Record {
	if r.Topic == schemas.TopicMatches {
		return portableMatch(r)
	}
	if r.Topic != schemas.TopicCommands {
		return r
	}
	var portable func(domain.Command) (domain.Command, bool)
	switch r.Header(schemas.HeaderType) {
	case domain.RecordCoverage{}.CommandType():
		portable = portableCoverage
	case domain.ResendEvent{}.CommandType():
		portable = portableResend
	default:
		return r
	}
	c, err := schemas.DecodeCommand(schemas.Read(r.Value, r))
	if err != nil {
		return r // the engine sets it aside
	}
	c, changed := portable(c)
	if !changed {
		return r
	}
	return inPlaceOf(r, schemas.EncodeCommand(c))
}

func portableCoverage(c domain.Command) (domain.Command, bool) {
	body, is := c.Body.(domain.RecordCoverage)
	if !is || body.Next.MatchesFrom == 0 {
		return c, false
	}
	body.Next.MatchesFrom = 0
	c.Body = body
	return c, true
}

func portableResend(c domain.Command) (domain.Command, bool) {
	body, is := c.Body.(domain.ResendEvent)
	if !is || body.Remembered == nil {
		return c, false
	}
	remembered := *body.Remembered
	remembered.AsOf = domain.AsOfAnotherJournal
	body.Remembered = &remembered
	c.Body = body
	return c, true
}

// portableMatch returns a match without the number of a handover.
func portableMatch(r kafka.Record) kafka.Record {
	in, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, r))
	if err != nil || in.Moved.Number == 0 {
		return r // or the engine sets it aside
	}
	in.Moved.FromPartition, in.Moved.Number = 0, 0
	return inPlaceOf(r, schemas.EncodeHandOver(in))
}

// inPlaceOf returns a record with another message. It keeps headers that are not the message's.
func inPlaceOf(r kafka.Record, m schemas.Message) kafka.Record {
	portable := kafka.NewRecord(r.Topic, string(r.Key), m.Value, m.EachHeader)
	portable.Timestamp = r.Timestamp
	for _, h := range r.Headers {
		is := func(other kafka.Header) bool { return other.Key == h.Key }
		if !slices.ContainsFunc(portable.Headers, is) {
			portable.Headers = append(portable.Headers, h)
		}
	}
	return portable
}
