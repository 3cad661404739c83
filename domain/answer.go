package domain

import (
	"bytes"
	"crypto/sha256"
	"strings"
)

// Rejection codes, each with the HTTP status of its response.
const (
	// CodeAlreadyExists (409): the object already exists, and the first answer is no longer stored.
	CodeAlreadyExists = "ALREADY_EXISTS"
	// CodeNotFound (404): the object doesn't exist, was deleted, or belongs to another account.
	CodeNotFound = "NOT_FOUND"
	// CodePreconditionFailed (412): the object's revision differs from the one that the client read.
	CodePreconditionFailed = "PRECONDITION_FAILED"
	// CodeEndpointDisabled (409): a disabled endpoint can't be tested.
	CodeEndpointDisabled = "ENDPOINT_DISABLED"
	// CodeEndpointDeleted (409): the event can't be sent again because its endpoint was deleted.
	CodeEndpointDeleted = "ENDPOINT_DELETED"
	// CodeDeliveryCancelled (409): the test.ping was cancelled, so it can't be sent again.
	CodeDeliveryCancelled = "DELIVERY_CANCELLED"
	// CodeDeliveryEnding (409): the delivery is being cancelled or has an attempt in flight, so its
	// event can't move to another endpoint yet.
	CodeDeliveryEnding = "DELIVERY_ENDING"
	// CodeNoEndpoint (409): the delivery was cancelled, and its watch has no other endpoint.
	CodeNoEndpoint = "NO_ENDPOINT"
	// CodeTooManyMoves (409): the event has moved between endpoints the maximum number of times.
	CodeTooManyMoves = "TOO_MANY_MOVES"
	// CodeTooManySecrets (409): the endpoint has the maximum number of valid secrets.
	CodeTooManySecrets = "TOO_MANY_SECRETS"
	// CodeTooManyKeys (403): the account has the maximum number of keys.
	CodeTooManyKeys = "TOO_MANY_KEYS"
	// CodeKeyRolled (409): the key was rolled before and has a successor.
	CodeKeyRolled = "KEY_ROLLED"
	// CodeKeyLimit (403): the caller's API key has stricter limits than the key to manage.
	CodeKeyLimit = "KEY_LIMIT_EXCEEDED"
	// CodeMissingPermission (403): the caller's API key lacks a permission of that key.
	CodeMissingPermission = "MISSING_PERMISSION"
	// CodeQuotaExceeded (403): the account has reached a quota.
	CodeQuotaExceeded = "QUOTA_EXCEEDED"
	// CodeTooManyRanges (409): the watch has the maximum number of separate covered ledger ranges.
	CodeTooManyRanges = "TOO_MANY_RANGES"
	// CodeHistoryBehind (503): the event is only stored in the history, which may not have its latest
	// facts yet. The command has no effect; if it is repeated, it is decided again.
	CodeHistoryBehind = "HISTORY_BEHIND"
	// CodeCommandUnreadable (503): the engine could not read the command, which is malformed or from a
	// newer version. The command has no effect; if it is repeated, it is read again.
	CodeCommandUnreadable = "COMMAND_UNREADABLE"
)

// Temporary reports whether the rejection isn't recorded, so the same command may succeed later.
func (r *Rejection) Temporary() bool { return r != nil && r.Code == CodeHistoryBehind }

// Rejection explains why a command was refused. It is an answer, not a failure.
type Rejection struct {
	Code   string
	Detail string
}

// Answer is the answer to a command. One of its pointers is set.
type Answer struct {
	Rejection *Rejection
	Account   *Account
	Key       *Key // the created key, or the successor of a rolled one
	Endpoint  *Endpoint
	Watch     *Watch
	Delivery  *Delivery // after a resend
	Replay    *ReplayResult
	Test      *TestResult
	// Version is the aggregate's version after the command, so that a client can wait until a view has
	// it. It is 0 if the object above has its own version.
	Version uint64
	// LeftOut is the hash of the Watch's senders if they are omitted, or nil if they are included.
	LeftOut []byte
}

// maxAnsweredSenders is the largest number of unchanged senders that an answer includes.
const maxAnsweredSenders = 8

// AnswerWithWatch returns the answer to a command with the resulting watch. To keep it small, it
// omits the open parts of backfills, and replaces many senders by their hash unless the command set
// them. A claim's answer always includes the senders because the follower matches against them.
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
	default:
	}
	hash := sendersHash(w.Rules.SenderAllowlist)
	w.Rules.SenderAllowlist = nil
	return Answer{Watch: &w, LeftOut: hash}
}

// Complete returns the answer's watch. If its senders were left out, it takes them from another
// state of the watch; ok is false if their hash differs.
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
	Truncated bool // more deliveries matched than one replay can queue
}

// TestResult is the result of a test.ping's first attempt.
type TestResult struct {
	EventID string
	Result  AttemptResult
}

// Result carries a command's answer to the client.
type Result struct {
	CommandID string
	BodyHash  []byte
	Answer    Answer
	Replayed  bool // this is the stored answer to an earlier run of the command
}
