package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/domain"
)

// Codes of problems. Rejections of the engine (domain.Code…) stand in the same
// table.
const (
	codeMalformedJSON        = "MALFORMED_JSON"
	codeInvalidHeader        = "INVALID_HEADER"
	codeInvalidParameter     = "INVALID_PARAMETER"
	codeInvalidCursor        = "INVALID_CURSOR"
	codeBodyUnreadable       = "BODY_UNREADABLE"
	codeUnauthenticated      = "UNAUTHENTICATED"
	codeMissingPermission    = "MISSING_PERMISSION"
	codeRateLimited          = "RATE_LIMITED"
	codeNotFound             = "NOT_FOUND"
	codeMethodNotAllowed     = "METHOD_NOT_ALLOWED"
	codeRequestTimeout       = "REQUEST_TIMEOUT"
	codeRequestTooLarge      = "REQUEST_TOO_LARGE"
	codeUnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE"
	codeValidationFailed     = "VALIDATION_FAILED"
	codeSecretKeyRefused     = "SECRET_KEY_REFUSED" // #nosec G101 -- the code of a problem
	codeSSRFBlocked          = "SSRF_BLOCKED"
	codeIdempotencyReused    = "IDEMPOTENCY_KEY_REUSED"
	codeInternal             = "INTERNAL"
	codeCommandUnanswered    = "COMMAND_UNANSWERED"
	codeWritesRefused        = "WRITES_REFUSED"
	codeDirectoryBehind      = "DIRECTORY_BEHIND"
	codeHistoryBehind        = "HISTORY_BEHIND"
	codeHistoryUnavailable   = "HISTORY_UNAVAILABLE"
	codeEventExpired         = "EVENT_EXPIRED"
	codeOverloaded           = "OVERLOADED"
)

// Codes of faults of a field, beside codeSecretKeyRefused and those of the
// URLPolicy.
const (
	faultSyntax            = "SYNTAX"
	faultDuplicateName     = "DUPLICATE_NAME"
	faultInvalidUTF8       = "INVALID_UTF8"
	faultTrailingData      = "TRAILING_DATA"
	faultTooDeep           = "TOO_DEEP"
	faultTooManyValues     = "TOO_MANY_VALUES"
	faultUnknownField      = "UNKNOWN_FIELD"
	faultRequired          = "REQUIRED"
	faultInvalidType       = "INVALID_TYPE"
	faultInvalidValue      = "INVALID_VALUE"
	faultNotAllowed        = "NOT_ALLOWED"
	faultEmpty             = "EMPTY"
	faultTooLong           = "TOO_LONG"
	faultTooMany           = "TOO_MANY"
	faultDuplicate         = "DUPLICATE"
	faultInvalidAddress    = "INVALID_ADDRESS"
	faultMuxedAddress      = "MUXED_ADDRESS_REFUSED"
	faultContractAddress   = "CONTRACT_ADDRESS_REFUSED"
	faultInvalidAmount     = "INVALID_AMOUNT"
	faultInvalidMemo       = "INVALID_MEMO"
	faultEndpointNotFound  = "ENDPOINT_NOT_FOUND"
	faultRangeIsEmpty      = "RANGE_IS_EMPTY"
	faultSecretTextRefused = "SECRET_REFUSED"
	faultUnknownParameter  = "UNKNOWN_PARAMETER"
	faultOutOfRange        = "OUT_OF_RANGE"
	faultInvalidTime       = "INVALID_TIME"
	faultHeaderRefused     = "HEADER_REFUSED"
	faultInvalidCIDR       = "INVALID_CIDR"
	faultCannotChange      = "CANNOT_CHANGE"
)

type problemKind struct {
	status int
	title  string
}

// problemKinds is the one table from code to status.
var problemKinds = map[string]problemKind{
	codeMalformedJSON:     {http.StatusBadRequest, "The body is not well-formed JSON"},
	codeInvalidHeader:     {http.StatusBadRequest, "A header is not valid"},
	codeInvalidParameter:  {http.StatusBadRequest, "Parameters of the query are not valid"},
	codeInvalidCursor:     {http.StatusBadRequest, "The cursor does not belong to this list"},
	codeBodyUnreadable:    {http.StatusBadRequest, "The body could not be read"},
	codeUnauthenticated:   {http.StatusUnauthorized, "No valid API key"},
	codeMissingPermission: {http.StatusForbidden, "The API key lacks a permission"},
	codeNotFound:          {http.StatusNotFound, "Not found"},
	codeMethodNotAllowed:  {http.StatusMethodNotAllowed, "The method is not allowed here"},
	domain.CodePreconditionFailed: {
		http.StatusPreconditionFailed, "The object was changed since it was read",
	},
	domain.CodeEndpointDisabled:  {http.StatusConflict, "The endpoint is disabled"},
	domain.CodeEndpointDeleted:   {http.StatusConflict, "The endpoint was deleted"},
	domain.CodeDeliveryCancelled: {http.StatusConflict, "The delivery was cancelled"},
	domain.CodeDeliveryEnding:    {http.StatusConflict, "The delivery is being cancelled"},
	domain.CodeNoEndpoint:        {http.StatusConflict, "The event's watch has no endpoint"},
	domain.CodeTooManyMoves: {
		http.StatusConflict, "The event went on at another endpoint too often",
	},
	domain.CodeTooManySecrets: {http.StatusConflict, "The endpoint has too many valid secrets"},
	domain.CodeTooManyKeys:    {http.StatusConflict, "The account has too many API keys"},
	domain.CodeKeyRolled:      {http.StatusConflict, "The API key was rolled before"},
	domain.CodeTooManyRanges: {
		http.StatusConflict, "The watch has covered too many ranges of ledgers",
	},
	codeEventExpired:         {http.StatusGone, "The event is no longer kept"},
	codeRateLimited:          {http.StatusTooManyRequests, "Too many requests with this API key"},
	codeRequestTimeout:       {http.StatusRequestTimeout, "The body did not arrive in time"},
	domain.CodeAlreadyExists: {http.StatusConflict, "It exists already"},
	codeRequestTooLarge:      {http.StatusRequestEntityTooLarge, "The body is too large"},
	codeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "The body must be JSON"},
	codeValidationFailed:     {http.StatusUnprocessableEntity, "Fields of the body are not valid"},
	codeSecretKeyRefused:     {http.StatusUnprocessableEntity, "A secret key was refused"},
	codeSSRFBlocked: {
		http.StatusUnprocessableEntity,
		"The URL leads to an address that may not be sent to",
	},
	codeIdempotencyReused: {
		http.StatusUnprocessableEntity, "The Idempotency-Key belongs to another request",
	},
	codeInternal: {http.StatusInternalServerError, "The server failed"},
	codeCommandUnanswered: {
		http.StatusServiceUnavailable, "The request was taken and is not answered yet",
	},
	domain.CodeCommandUnreadable: {
		http.StatusServiceUnavailable, "The request could not be carried out",
	},
	codeWritesRefused:      {http.StatusServiceUnavailable, "Nothing can be written now"},
	codeDirectoryBehind:    {http.StatusServiceUnavailable, "This node is not up to date"},
	codeHistoryBehind:      {http.StatusServiceUnavailable, "The history is not up to date"},
	codeHistoryUnavailable: {http.StatusServiceUnavailable, "The history cannot be read"},
	codeOverloaded:         {http.StatusServiceUnavailable, "Too many requests at once"},
}

// Problem is an answer that says why not (RFC 9457).
type Problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`
	Code      string  `json:"code"`
	RequestID string  `json:"requestId"`
	CommandID string  `json:"commandId,omitempty"` // of a write that is not answered yet
	Errors    []Fault `json:"errors,omitempty"`

	retryAfterSeconds int
	replayed          bool
	cause             error // what the log says and the client does not
}

// Fault is one thing wrong with a body or a query.
type Fault struct {
	Pointer   string `json:"pointer"`             // JSON pointer (RFC 6901) into the body
	Parameter string `json:"parameter,omitempty"` // of the query, which a pointer does not reach
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

func newProblem(code, detail string) *Problem {
	kind, known := problemKinds[code]
	if !known {
		// The engine may be newer than this node and refuse for a reason of which
		// this one has not heard: every rejection is a conflict with a state.
		kind = problemKind{http.StatusConflict, "The state of the object does not allow it"}
	}
	return &Problem{
		Type:   "urn:lumenhook:problem:" + strings.ToLower(strings.ReplaceAll(code, "_", "-")),
		Title:  kind.title,
		Status: kind.status,
		Detail: detail,
		Code:   code,
	}
}

func (p *Problem) because(err error) *Problem {
	p.cause = err
	return p
}

func (p *Problem) retryAfter(seconds int) *Problem {
	p.retryAfterSeconds = seconds
	return p
}

func internal(err error) *Problem {
	return newProblem(codeInternal,
		"The request failed through no fault of its own. Repeat it; if it keeps failing, report the "+
			"requestId.").because(
		err,
	)
}

// maxFaults bounds how many faults one answer lists, and maxPointerBytes how
// long the pointer of each may be: the names in it are the client's.
const (
	maxFaults       = 100
	maxPointerBytes = 256
)

// faults collects what is wrong with a body.
type faults struct {
	list  []Fault
	count int
}

func (f *faults) add(at jsontext.Pointer, code, detail string) {
	f.count++
	if len(f.list) == maxFaults {
		return
	}
	f.list = append(f.list, Fault{Pointer: shortPointer(at), Code: code, Detail: detail})
}

func shortPointer(at jsontext.Pointer) string {
	if len(at) <= maxPointerBytes {
		return string(at)
	}
	return strings.ToValidUTF8(string(at[:maxPointerBytes]), "") + "…"
}

// problem is nil when nothing is wrong. A refusal for safety's sake names itself
// in the problem's own code; everything else is VALIDATION_FAILED.
func (f *faults) problem() *Problem {
	if f.count == 0 {
		return nil
	}
	code := codeValidationFailed
	for _, fault := range f.list {
		if fault.Code == codeSecretKeyRefused ||
			fault.Code == codeSSRFBlocked && code == codeValidationFailed {
			code = fault.Code
		}
	}
	detail := "The body has 1 fault; errors names it."
	if f.count > 1 {
		detail = fmt.Sprintf("The body has %d faults; errors names each.", f.count)
	}
	if f.count > len(f.list) {
		detail = fmt.Sprintf("The body has %d faults; errors names the first %d.", f.count, len(f.list))
	}
	p := newProblem(code, detail)
	p.Errors = f.list
	return p
}
