package domain

import (
	"bytes"
	"crypto/sha256"
	"strings"
)

// Codes of rejections, each with the HTTP status of the answer.
const (
	// CodeAlreadyExists: 409. The object was created before, and the first answer is
	// forgotten.
	CodeAlreadyExists = "ALREADY_EXISTS"
	// CodeNotFound: 404. There is no such object, it was deleted, or another account owns
	// it; the client cannot tell which.
	CodeNotFound = "NOT_FOUND"
	// CodePreconditionFailed: 412. The object's revision is not the one that the client has
	// seen.
	CodePreconditionFailed = "PRECONDITION_FAILED"
	// CodeEndpointDisabled: 409. A disabled endpoint cannot be tested.
	CodeEndpointDisabled = "ENDPOINT_DISABLED"
	// CodeEndpointDeleted: 409. The event exists, but its endpoint does not, and so it
	// cannot be sent again.
	CodeEndpointDeleted = "ENDPOINT_DELETED"
	// CodeDeliveryCancelled: 409. The test.ping ended with its endpoint and cannot
	// be sent again.
	CodeDeliveryCancelled = "DELIVERY_CANCELLED"
	// CodeDeliveryEnding: 409. The delivery is about to be cancelled, or an attempt of it
	// is in flight: its event cannot continue elsewhere yet.
	CodeDeliveryEnding = "DELIVERY_ENDING"
	// CodeNoEndpoint: 409. The delivery was cancelled, and the event's watch names no
	// endpoint where it can continue.
	CodeNoEndpoint = "NO_ENDPOINT"
	// CodeTooManyMoves: 409. The event has been handed over to other endpoints as often as
	// allowed.
	CodeTooManyMoves = "TOO_MANY_MOVES"
	// CodeTooManySecrets: 409. The endpoint has as many valid secrets as it may.
	CodeTooManySecrets = "TOO_MANY_SECRETS"
	// CodeTooManyKeys: 403. The account has as many keys as it may.
	CodeTooManyKeys = "TOO_MANY_KEYS"
	// CodeKeyRolled: 409. The key was rolled before and has a successor.
	CodeKeyRolled = "KEY_ROLLED"
	// CodeKeyLimit: 403. The API key that asks has less than the key that it would create, roll
	// or revoke: an expiry, or networks.
	CodeKeyLimit = "KEY_LIMIT_EXCEEDED"
	// CodeMissingPermission: 403. The same, of a permission.
	CodeMissingPermission = "MISSING_PERMISSION"
	// CodeQuotaExceeded: 403. The account has as much as it may of something.
	CodeQuotaExceeded = "QUOTA_EXCEEDED"
	// CodeTooManyRanges: 409. The watch has as many separate covered ranges of ledgers as
	// it may.
	CodeTooManyRanges = "TOO_MANY_RANGES"
	// CodeHistoryBehind: 503. The event is no longer stored, and the history from which it is
	// requested may lack its latest facts. The command has no effect, and a repeat is decided
	// again.
	CodeHistoryBehind = "HISTORY_BEHIND"
	// CodeCommandUnreadable: 503. The engine set the command aside: it is of a newer
	// version, or malformed. It has no effect, and a repeat is read again.
	CodeCommandUnreadable = "COMMAND_UNREADABLE"
)

// Temporary reports whether a rejection is not final: it is not recorded, and the same command may
// succeed later.
func (r *Rejection) Temporary() bool { return r != nil && r.Code == CodeHistoryBehind }

// Rejection is why a command was refused. It is an answer, not a failure.
type Rejection struct {
	Code   string
	Detail string
}

// Answer is the answer to a command: a rejection, the object after the command, or a
// result. One of the pointers is set.
type Answer struct {
	Rejection *Rejection
	Account   *Account
	Key       *Key // created, or the new one of a roll
	Endpoint  *Endpoint
	Watch     *Watch
	Delivery  *Delivery // of a resend
	Replay    *ReplayResult
	Test      *TestResult
	// Version is the aggregate's version after the command, which a client can wait for in a view.
	// It is 0 if the object above has its own.
	Version uint64
	// LeftOut is the hash of the Watch's senders if they are left out of it; nil: they are in it.
	LeftOut []byte
}

// maxAnsweredSenders bounds the senders in an answer that its command did not set.
const maxAnsweredSenders = 8

// AnswerWithWatch returns the answer to a command with the resulting watch. A small command gets a
// small answer: a hash replaces many senders that it did not set, and open parts of backfills are
// left out. The answer to a claim has the senders, because the follower matches by it.
func AnswerWithWatch(w Watch, c CommandBody) Answer {
	w.Parts = nil
	if len(w.Rules.SenderAllowlist) <= maxAnsweredSenders {
		return Answer{Watch: &w}
	}
	switch body := c.(type) {
	case CreateWatch:
		return Answer{Watch: &w}
	case UpdateWatch:
		if body.Change.SenderAllowlist != nil {
			return Answer{Watch: &w}
		}
	case RecordCoverage:
		if body.Fulfils.Is() || body.Missed != 0 {
			return Answer{Watch: &w}
		}
	default: // it sets no senders
	}
	hash := sendersHash(w.Rules.SenderAllowlist)
	w.Rules.SenderAllowlist = nil
	return Answer{Watch: &w, LeftOut: hash}
}

// Complete returns the answer's watch with the senders of another state of it, if their hash is the
// answer's.
func (a Answer) Complete(from Watch) (whole Watch, ok bool) {
	whole = *a.Watch
	if a.LeftOut == nil {
		return whole, true
	}
	whole.Rules.SenderAllowlist = from.Rules.SenderAllowlist
	return whole, bytes.Equal(a.LeftOut, sendersHash(from.Rules.SenderAllowlist))
}

func sendersHash(senders []string) []byte {
	sum := sha256.Sum256([]byte(strings.Join(senders, ",")))
	return sum[:]
}

// ReplayResult is the result of a replay.
type ReplayResult struct {
	Queued    int
	Matched   int
	Truncated bool // more matched than one replay queues
}

// TestResult is the first attempt of a test.ping.
type TestResult struct {
	EventID string
	Result  AttemptResult
}

// Result is a command's answer on its way to the client.
type Result struct {
	CommandID string
	BodyHash  []byte
	Answer    Answer
	Replayed  bool // the command was answered before, and this is that answer
}
