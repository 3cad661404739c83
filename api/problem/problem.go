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

// Problem is a refusal (RFC 9457), as clients get it, and what only the server knows of it.
type Problem struct {
	client.Problem

	RetryAfterSeconds int   `json:"-"` // 0: repeating is useless
	Replayed          bool  `json:"-"` // the answer to an earlier request with the same key
	Cause             error `json:"-"` // for the log, not for the client
}

// New makes a problem with a code.
func New(code, detail string) *Problem {
	of, known := kinds[code]
	if !known {
		// The engine may be newer than this node and refuse for a reason that this node
		// does not know: every rejection is a conflict with a state.
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

// Internal makes the problem of an unexpected error.
func Internal(err error) *Problem {
	return New(CodeInternal,
		"The request failed through no fault of its own. Repeat it; if it keeps failing, report the "+
			"requestId.").Because(err)
}

// Of returns the problem that an error is or wraps. Any other error is internal.
func Of(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return Internal(err)
}

// Because sets the cause.
func (p *Problem) Because(err error) *Problem {
	p.Cause = err
	return p
}

// RetryAfter sets when the request may be repeated.
func (p *Problem) RetryAfter(seconds int) *Problem {
	p.RetryAfterSeconds = seconds
	return p
}

// Error is for the log: clients get JSON.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// JSON encodes the problem; invalid UTF-8 is replaced.
func (p *Problem) JSON() []byte {
	body, err := json.Marshal(p, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("problem: " + err.Error()) // cannot fail: a struct of strings and numbers
	}
	return body
}
