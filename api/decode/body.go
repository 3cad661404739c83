package decode

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/lumenhook/lumenhook/api/problem"
)

// BodyKind is an operation's kind of request body.
type BodyKind int

// Kinds of request body.
const (
	BodyIgnored  BodyKind = iota // not read
	BodyEmpty                    // no body, or an object without fields
	BodyOptional                 // no body, or a JSON object
	BodyJSON                     // a JSON object
	BodyPatch                    // a JSON merge patch (RFC 7396)
)

// Body reads the request body as its operation expects it. It accepts an empty body: the missing
// fields are reported only after the server has checked whether the request is a retry.
func Body(w http.ResponseWriter, r *http.Request, kind BodyKind) ([]byte, error) {
	if kind == BodyIgnored {
		return nil, nil
	}
	if err := checkBodyHeaders(r, kind); err != nil {
		return nil, err
	}
	body, err := readBody(w, r)
	switch {
	case err != nil:
		return nil, err
	case len(body) > 0 && r.Header.Get("Content-Type") == "":
		return nil, notJSON()
	case len(body) > 0 && kind == BodyEmpty:
		return body, NoFields(body).Err()
	}
	return body, nil
}

func checkBodyHeaders(r *http.Request, kind BodyKind) error {
	if r.ContentLength > MaxBodyBytes {
		return tooLarge()
	}
	if (kind == BodyEmpty || kind == BodyOptional) &&
		(r.ContentLength == 0 || r.ContentLength < 0 && r.Header.Get("Content-Type") == "") {
		return nil // without a length, only reading shows whether there is a body
	}
	types := r.Header.Values("Content-Type")
	if len(types) != 1 || !isMediaType(types[0], "application/json") &&
		(kind != BodyPatch || !isMediaType(types[0], "application/merge-patch+json")) {
		return notJSON()
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" &&
		!strings.EqualFold(coding, "identity") {
		return problem.New(problem.CodeUnsupportedMediaType,
			"Send the body without a Content-Encoding.")
	}
	return nil
}

func notJSON() error {
	return problem.New(problem.CodeUnsupportedMediaType,
		"Send the body as JSON in UTF-8, with the header Content-Type: application/json.")
}

// isMediaType compares media types. The charset parameter may only be UTF-8.
func isMediaType(contentType, want string) bool {
	mediaType, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != want {
		return false
	}
	for name, value := range parameters {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

func tooLarge() error {
	return problem.New(problem.CodeRequestTooLarge,
		fmt.Sprintf("The body must have at most %d bytes.", MaxBodyBytes))
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	var tooMany *http.MaxBytesError
	switch {
	case errors.As(err, &tooMany):
		return nil, tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.New(problem.CodeRequestTimeout,
			"The body did not arrive in time. Repeat the request.").Because(err)
	case err != nil:
		return nil, problem.New(problem.CodeBodyUnreadable,
			"The body does not match its headers. Repeat the request.").Because(err)
	}
	return body, nil
}
