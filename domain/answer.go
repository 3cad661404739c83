package domain

// Codes of rejections, with the status that answers a request with each.
const (
	// CodeAlreadyExists: 409. The object was created before, and the answer of
	// then is forgotten.
	CodeAlreadyExists = "ALREADY_EXISTS"
	// CodeNotFound: 404. There is no such object, it was deleted, or another
	// account owns it; the asker cannot tell which.
	CodeNotFound = "NOT_FOUND"
	// CodePreconditionFailed: 412. The object has another revision than the
	// asker has seen.
	CodePreconditionFailed = "PRECONDITION_FAILED"
	// CodeEndpointDisabled: 409. A disabled endpoint cannot be tested.
	CodeEndpointDisabled = "ENDPOINT_DISABLED"
	// CodeEndpointDeleted: 409. The event is there, the endpoint it went to is
	// not, and so it cannot be sent again.
	CodeEndpointDeleted = "ENDPOINT_DELETED"
	// CodeDeliveryCancelled: 409. The test.ping ended with its endpoint and cannot
	// be sent again.
	CodeDeliveryCancelled = "DELIVERY_CANCELLED"
	// CodeDeliveryEnding: 409. The delivery is about to be cancelled, or an attempt
	// of it is under way: its event cannot go on elsewhere yet.
	CodeDeliveryEnding = "DELIVERY_ENDING"
	// CodeNoEndpoint: 409. The delivery was cancelled, and the event's watch names
	// no endpoint that it can go on at.
	CodeNoEndpoint = "NO_ENDPOINT"
	// CodeTooManyMoves: 409. The event went on at another endpoint as often as it may.
	CodeTooManyMoves = "TOO_MANY_MOVES"
	// CodeTooManySecrets: 409. The endpoint has as many valid secrets as it may.
	CodeTooManySecrets = "TOO_MANY_SECRETS"
	// CodeTooManyKeys: 409. The account has as many keys as it may.
	CodeTooManyKeys = "TOO_MANY_KEYS"
	// CodeKeyRolled: 409. The key was rolled before and has a successor.
	CodeKeyRolled = "KEY_ROLLED"
	// CodeTooManyRanges: 409. The watch has covered as many ranges of ledgers
	// apart from each other as it may.
	CodeTooManyRanges = "TOO_MANY_RANGES"
	// CodeCommandUnreadable: 503. The engine set the command aside: it is of a
	// newer version, or malformed. It has no effect, and asked again it is read
	// again.
	CodeCommandUnreadable = "COMMAND_UNREADABLE"
)

// RejectionCodes lists all of them.
func RejectionCodes() []string {
	return []string{
		CodeAlreadyExists, CodeNotFound, CodePreconditionFailed,
		CodeEndpointDisabled, CodeEndpointDeleted, CodeDeliveryCancelled,
		CodeDeliveryEnding, CodeNoEndpoint, CodeTooManyMoves, CodeTooManySecrets,
		CodeTooManyKeys, CodeKeyRolled, CodeTooManyRanges,
		CodeCommandUnreadable,
	}
}

// Rejection says why a command was refused. It is an answer, not a failure.
type Rejection struct {
	Code   string
	Detail string
}

// Answer is what a command is answered with: a rejection, or the object as the
// command left it, or what came of it. One of the pointers is set.
type Answer struct {
	Rejection *Rejection
	Account   *Account
	Key       *Key // created, or the new one of a roll
	Endpoint  *Endpoint
	Watch     *Watch
	Delivery  *Delivery // of a resend
	Replay    *ReplayResult
	Test      *TestResult
	// Version is the aggregate's after the command: whoever waits until a view
	// has it sees the change. It is 0 where the object above has its own.
	Version uint64
}

// ReplayResult says what a replay did.
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

// Result carries an answer back to whoever waits for it.
type Result struct {
	CommandID string
	BodyHash  []byte
	Answer    Answer
	Replayed  bool // the command was answered before, and this is that answer
}
