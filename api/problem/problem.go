package problem

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/api/client"
)

// ContentType is the media type of an encoded problem.
const ContentType = "application/problem+json"

// Problem is an error response (RFC 9457) with the fields that only the server knows.
type Problem struct {
	client.Problem

	RetryAfterSeconds int   `json:"-"` // 0: retrying won't help
	Replayed          bool  `json:"-"` // response to an earlier request with the same key
	Cause             error `json:"-"` // for the log, not for the client
}

// New returns a problem with a code.
func New(code, detail string) *Problem {
	of, known := kinds[code]
	if !known {
		// A newer engine may reject a command for a reason that this node does not know. Every
		// rejection is a conflict with an object's state.
		of = kind{http.StatusConflict, "The state of the object does not allow it"}
	}
	return &Problem{Problem: client.Problem{
		Type:   "urn:lumenhook:problem:" + strings.ToLower(strings.ReplaceAll(code, "_", "-")),
		Title:  of.title,
		Status: of.status,
		Detail: detail,
		Code:   code,
	}}
}

// Internal returns the problem for an unexpected error.
func Internal(err error) *Problem {
	return New(CodeInternal,
		"The request failed through no fault of its own. Repeat it; if it keeps failing, report the "+
			"requestId.").Because(err)
}

// Of returns the problem that err is or wraps. For any other error it returns an internal problem.
func Of(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return Internal(err)
}

// Because sets the cause and returns p.
func (p *Problem) Because(err error) *Problem {
	p.Cause = err
	return p
}

// RetryAfter sets after how many seconds the request may be retried, and returns p.
func (p *Problem) RetryAfter(seconds int) *Problem {
	p.RetryAfterSeconds = seconds
	return p
}

// Error returns the text for the log. Clients receive JSON.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// JSON encodes the problem, replacing invalid UTF-8.
func (p *Problem) JSON() []byte {
	body, err := json.Marshal(p, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("problem: " + err.Error()) // cannot happen: p contains only strings and numbers
	}
	return body
}
