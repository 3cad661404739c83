package problem

import (
	"maps"
	"net/http"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
)

// Codes of problems. The engine's rejection codes (domain.Code…) are in the same table.
const (
	CodeMalformedJSON        = "MALFORMED_JSON"
	CodeInvalidHeader        = "INVALID_HEADER"
	CodeInvalidParameter     = "INVALID_PARAMETER"
	CodeInvalidCursor        = "INVALID_CURSOR"
	CodeBodyUnreadable       = "BODY_UNREADABLE"
	CodeUnauthenticated      = "UNAUTHENTICATED"
	CodeMissingPermission    = domain.CodeMissingPermission
	CodeRateLimited          = "RATE_LIMITED"
	CodeNotFound             = "NOT_FOUND"
	CodeMethodNotAllowed     = "METHOD_NOT_ALLOWED"
	CodeRequestTimeout       = "REQUEST_TIMEOUT"
	CodeRequestTooLarge      = "REQUEST_TOO_LARGE"
	CodeUnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE"
	CodeValidationFailed     = "VALIDATION_FAILED"
	CodeSecretKeyRefused     = "SECRET_KEY_REFUSED" // #nosec G101 -- the code of a problem
	CodeSSRFBlocked          = "SSRF_BLOCKED"
	CodeIdempotencyReused    = "IDEMPOTENCY_KEY_REUSED"
	CodeInternal             = "INTERNAL"
	CodeCommandUnanswered    = "COMMAND_UNANSWERED"
	CodeWritesRefused        = "WRITES_REFUSED"
	CodeDirectoryBehind      = "DIRECTORY_BEHIND"
	CodeHistoryBehind        = "HISTORY_BEHIND"
	CodeHistoryUnavailable   = "HISTORY_UNAVAILABLE"
	CodeLedgersUnavailable   = "LEDGERS_UNAVAILABLE"
	CodeMovesNotRecorded     = "BALANCE_MOVES_NOT_RECORDED"
	CodeEventExpired         = "EVENT_EXPIRED"
	CodeFactsNotKept         = "FACTS_NOT_KEPT"
	CodeTooManyFacts         = "TOO_MANY_FACTS"
	CodeEndpointWatched      = "ENDPOINT_WATCHED"
	CodeNoReceipt            = "NO_RECEIPT"
	CodeNoSigningKey         = "NO_SIGNING_KEY"
	CodeOverloaded           = "OVERLOADED"
	CodeTooManyWaiting       = "TOO_MANY_WAITING"
	CodeTooManyParallel      = "TOO_MANY_PARALLEL_REQUESTS"
)

// Codes of problems that the server returns before a handler sees the request.
const (
	CodeExpectationFailed = "EXPECTATION_FAILED"
	CodeHeadersTooLarge   = "HEADERS_TOO_LARGE"
	CodeMalformedRequest  = "MALFORMED_REQUEST"
	CodeTLSRequired       = "TLS_REQUIRED"
	CodeTransferCoding    = "UNSUPPORTED_TRANSFER_CODING"
	CodeVersion           = "UNSUPPORTED_VERSION"
)

// Codes of field faults, in addition to CodeSecretKeyRefused and CodeSSRFBlocked.
const (
	FaultSyntax            = "SYNTAX"
	FaultDuplicateName     = "DUPLICATE_NAME"
	FaultInvalidUTF8       = "INVALID_UTF8"
	FaultTrailingData      = "TRAILING_DATA"
	FaultTooDeep           = "TOO_DEEP"
	FaultTooManyValues     = "TOO_MANY_VALUES"
	FaultUnknownField      = "UNKNOWN_FIELD"
	FaultRequired          = "REQUIRED"
	FaultInvalidType       = "INVALID_TYPE"
	FaultInvalidValue      = "INVALID_VALUE"
	FaultNotAllowed        = "NOT_ALLOWED"
	FaultEmpty             = "EMPTY"
	FaultTooLong           = "TOO_LONG"
	FaultTooMany           = "TOO_MANY"
	FaultDuplicate         = "DUPLICATE"
	FaultInvalidAddress    = "INVALID_ADDRESS"
	FaultMuxedAddress      = "MUXED_ADDRESS_REFUSED"
	FaultContractAddress   = "CONTRACT_ADDRESS_REFUSED"
	FaultInvalidAmount     = "INVALID_AMOUNT"
	FaultInvalidMemo       = "INVALID_MEMO"
	FaultEndpointNotFound  = "ENDPOINT_NOT_FOUND"
	FaultRangeIsEmpty      = "RANGE_IS_EMPTY"
	FaultSecretTextRefused = "SECRET_REFUSED"
	FaultUnknownParameter  = "UNKNOWN_PARAMETER"
	FaultOutOfRange        = "OUT_OF_RANGE"
	FaultInvalidTime       = "INVALID_TIME"
	FaultHeaderRefused     = "HEADER_REFUSED"
	FaultInvalidCIDR       = "INVALID_CIDR"
	FaultCannotChange      = "CANNOT_CHANGE"
)

type kind struct {
	status int
	title  string
}

var kinds = map[string]kind{
	CodeMalformedJSON:     {http.StatusBadRequest, "The body is not well-formed JSON"},
	CodeInvalidHeader:     {http.StatusBadRequest, "A header is not valid"},
	CodeInvalidParameter:  {http.StatusBadRequest, "Parameters of the query are not valid"},
	CodeInvalidCursor:     {http.StatusBadRequest, "The cursor does not belong to this list"},
	CodeBodyUnreadable:    {http.StatusBadRequest, "The body could not be read"},
	CodeUnauthenticated:   {http.StatusUnauthorized, "No valid API key"},
	CodeMissingPermission: {http.StatusForbidden, "The API key lacks a permission"},
	domain.CodeKeyLimit:   {http.StatusForbidden, "The API key that asks is limited"},
	CodeNotFound:          {http.StatusNotFound, "Not found"},
	CodeMethodNotAllowed:  {http.StatusMethodNotAllowed, "The method is not allowed here"},
	domain.CodePreconditionFailed: {
		http.StatusPreconditionFailed, "The object was changed since it was read",
	},
	domain.CodeEndpointDisabled:  {http.StatusConflict, "The endpoint is disabled"},
	domain.CodeEndpointDeleted:   {http.StatusConflict, "The endpoint was deleted"},
	domain.CodeDeliveryCancelled: {http.StatusConflict, "The delivery was cancelled"},
	domain.CodeDeliveryEnding:    {http.StatusConflict, "The delivery is being cancelled"},
	domain.CodeNoEndpoint:        {http.StatusConflict, "The event's watch has no endpoint"},
	domain.CodeTooManyMoves: {
		http.StatusConflict, "The event was moved to another endpoint too often",
	},
	domain.CodeTooManySecrets: {http.StatusConflict, "The endpoint has too many valid secrets"},
	domain.CodeTooManyKeys:    {http.StatusForbidden, "The account has too many API keys"},
	domain.CodeQuotaExceeded:  {http.StatusForbidden, "The account has as much as it may"},
	domain.CodeKeyRolled:      {http.StatusConflict, "The API key was rolled before"},
	domain.CodeTooManyRanges: {
		http.StatusConflict, "The watch has covered too many ranges of ledgers",
	},
	CodeEventExpired:         {http.StatusGone, "The event is no longer kept"},
	CodeFactsNotKept:         {http.StatusGone, "The first facts are no longer stored"},
	CodeTooManyFacts:         {http.StatusConflict, "There are too many facts"},
	CodeEndpointWatched:      {http.StatusConflict, "The endpoint has watches"},
	CodeNoReceipt:            {http.StatusNotFound, "There is no receipt"},
	CodeNoSigningKey:         {http.StatusNotImplemented, "The deployment has no signing key"},
	CodeRateLimited:          {http.StatusTooManyRequests, "Too many requests of this account"},
	CodeTooManyWaiting:       {http.StatusTooManyRequests, "Too many requests wait for events"},
	CodeTooManyParallel:      {http.StatusTooManyRequests, "Too many requests in progress"},
	CodeRequestTimeout:       {http.StatusRequestTimeout, "The body did not arrive in time"},
	domain.CodeAlreadyExists: {http.StatusConflict, "The object already exists"},
	CodeRequestTooLarge:      {http.StatusRequestEntityTooLarge, "The body is too large"},
	CodeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "The body must be JSON"},
	CodeValidationFailed:     {http.StatusUnprocessableEntity, "Fields of the body are not valid"},
	CodeSecretKeyRefused:     {http.StatusUnprocessableEntity, "A secret key was refused"},
	CodeSSRFBlocked: {
		http.StatusUnprocessableEntity,
		"The URL leads to a blocked address",
	},
	CodeIdempotencyReused: {
		http.StatusUnprocessableEntity, "The Idempotency-Key belongs to another request",
	},
	CodeInternal: {http.StatusInternalServerError, "The server failed"},
	CodeCommandUnanswered: {
		http.StatusServiceUnavailable, "The request was accepted and is not answered yet",
	},
	domain.CodeCommandUnreadable: {
		http.StatusServiceUnavailable, "The request could not be carried out",
	},
	CodeWritesRefused:      {http.StatusServiceUnavailable, "Writes are not possible now"},
	CodeDirectoryBehind:    {http.StatusServiceUnavailable, "This node is not up to date"},
	CodeHistoryBehind:      {http.StatusServiceUnavailable, "The history is not up to date"},
	CodeHistoryUnavailable: {http.StatusServiceUnavailable, "The history cannot be read"},
	CodeMovesNotRecorded:   {http.StatusNotImplemented, "Balance moves are not recorded"},
	CodeLedgersUnavailable: {http.StatusServiceUnavailable, "The ledgers' cursor cannot be read"},
	CodeOverloaded:         {http.StatusServiceUnavailable, "Too many requests at once"},

	CodeExpectationFailed: {http.StatusExpectationFailed, "The expectation is not supported"},
	CodeHeadersTooLarge: {
		http.StatusRequestHeaderFieldsTooLarge, "The headers are too large",
	},
	CodeMalformedRequest: {http.StatusBadRequest, "The request is not well-formed HTTP"},
	CodeTLSRequired:      {http.StatusBadRequest, "This server expects TLS"},
	CodeTransferCoding:   {http.StatusNotImplemented, "The transfer coding is not supported"},
	CodeVersion: {
		http.StatusHTTPVersionNotSupported, "The version of HTTP is not supported",
	},
}

// Codes returns all problem codes, sorted.
func Codes() []string { return slices.Sorted(maps.Keys(kinds)) }
