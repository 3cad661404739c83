package domain

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"
)

// AttemptLog holds what is needed to append to the log of an endpoint's attempts, a Merkle tree
// (RFC 6962) of the attempts in the order of their facts. If an attempt is missing, the log is
// closed and the next attempt starts another one (docs/decisions/receipts.md).
type AttemptLog struct {
	From uint64 // version of the first leaf's fact, which identifies the log; 0 if there is none
	Size uint64 // number of leaves
	// Peaks are the hashes of the largest complete subtrees, largest first: one per bit set in Size.
	Peaks []byte
}

// LogEntry is the log entry of an [AttemptMade].
type LogEntry struct {
	From   uint64 // [AttemptLog.From]
	Number uint64 // the leaf's number, from 1
	// SHA-256 hashes of the request's body and of its Webhook-Signature.
	BodySHA256, SignatureSHA256 []byte
	// Hashes are the hash of the leaf and of each subtree that it completes, smallest first.
	Hashes []byte
}

// AttemptRecord is the content of a leaf: one attempt in its public form.
type AttemptRecord struct {
	EventID        string
	EndpointID     string
	Number         int // the attempt's number
	SentAtMillis   int64
	DurationMillis int64
	// See [LogEntry].
	BodySHA256, SignatureSHA256 []byte
	StatusCode                  int // 0 if no status arrived
	Error                       AttemptError
	AnswerSHA256                []byte // of the first 1 KiB of the response
}

// Record returns the content of the attempt's leaf.
func (b AttemptMade) Record(endpointID string) AttemptRecord {
	answer := sha256.Sum256(b.Result.ResponseBody)
	return AttemptRecord{
		EventID:         b.EventID,
		EndpointID:      endpointID,
		Number:          b.Number,
		SentAtMillis:    b.Result.SentAtMillis,
		DurationMillis:  b.Result.DurationMillis,
		BodySHA256:      b.Entry.BodySHA256,
		SignatureSHA256: b.Entry.SignatureSHA256,
		StatusCode:      b.Result.StatusCode,
		Error:           b.Result.Error,
		AnswerSHA256:    answer[:],
	}
}

// Text returns the record's canonical form of ten lines. The first line is its version.
func (r AttemptRecord) Text() []byte {
	answer := strconv.Itoa(r.StatusCode)
	if r.Error != "" {
		answer += " " + string(r.Error)
	}
	return fmt.Appendf(nil, "lumenhook-attempt v1\nevent %s\nendpoint %s\nattempt %d\n"+
		"sent-at-ms %d\nduration-ms %d\nbody-sha256 %x\nsignature-sha256 %x\nanswer %s\n"+
		"answer-sha256 %x\n", r.EventID, r.EndpointID, r.Number, r.SentAtMillis, r.DurationMillis,
		r.BodySHA256, r.SignatureSHA256, answer, r.AnswerSHA256)
}

// leafHash and nodeHash are defined in RFC 6962, section 2.1.
func leafHash(text []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte{0}, text...))
}

func nodeHash(left []byte, right [sha256.Size]byte) [sha256.Size]byte {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left)
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// next returns the log entry of an attempt whose fact has the given version.
func (l AttemptLog) next(version uint64, endpointID string, made AttemptMade) LogEntry {
	entry := made.Entry
	if l.From == 0 {
		l = AttemptLog{From: version}
	}
	entry.From, entry.Number = l.From, l.Size+1
	hash := leafHash(made.Record(endpointID).Text())
	entry.Hashes = append(entry.Hashes, hash[:]...)
	for size, peaks := l.Size, l.Peaks; size&1 == 1; size >>= 1 {
		last := len(peaks) - sha256.Size
		hash = nodeHash(peaks[last:], hash)
		entry.Hashes, peaks = append(entry.Hashes, hash[:]...), peaks[:last]
	}
	return entry
}

// with returns the log with one more entry. An entry that doesn't follow the last one closes the
// log, because a log must not have gaps.
func (l AttemptLog) with(e LogEntry) AttemptLog {
	if e.Number == 1 {
		l = AttemptLog{From: e.From}
	}
	// Each subtree that the leaf completes replaces a peak.
	kept := len(l.Peaks) - (len(e.Hashes) - sha256.Size)
	if e.Number != l.Size+1 || e.From != l.From || len(e.Hashes) < sha256.Size || kept < 0 {
		return AttemptLog{}
	}
	last := e.Hashes[len(e.Hashes)-sha256.Size:]
	return AttemptLog{
		From:  l.From,
		Size:  e.Number,
		Peaks: append(bytes.Clone(l.Peaks[:kept]), last...),
	}
}
