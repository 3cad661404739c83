package receipt

import (
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/lumenhook/lumenhook/domain"
)

// Format identifies the format of a receipt.
const Format = "lumenhook-receipt/v1"

// Limits of a receipt.
const (
	MaxBytes    = 4 << 20
	MaxAttempts = 100 // the last of an event

	maxProof = 64 // hashes per proof: a log has fewer than 2^63 leaves
)

// Receipt proves attempts to deliver one event.
type Receipt struct {
	Format  string `json:"format"`
	EventID string `json:"eventId"`
	Logs    []Log  `json:"logs"` // one, unless the event was moved or a log was closed
}

// Log holds attempts from one log.
type Log struct {
	// Checkpoint is the signed state of the log, a note.
	Checkpoint string `json:"checkpoint"`
	// Earlier proves that the log extends an earlier state. nil if not requested.
	Earlier  *Earlier  `json:"earlier,omitempty"`
	Attempts []Attempt `json:"attempts"`
}

// Earlier is an earlier state of a log, and the proof that the later state extends it.
type Earlier struct {
	Size  int64          `json:"size"`
	Root  tlog.Hash      `json:"root"`
	Proof tlog.TreeProof `json:"proof"`
}

// Attempt is an attempt as recorded in its leaf, and the proof that the log contains the leaf.
type Attempt struct {
	EndpointID      string           `json:"endpointId"`
	Number          int              `json:"number"`
	SentAtMs        int64            `json:"sentAtMs"`
	DurationMs      int64            `json:"durationMs"`
	BodySHA256      string           `json:"bodySha256"`
	SignatureSHA256 string           `json:"signatureSha256"`
	StatusCode      int              `json:"statusCode"` // 0: no status arrived
	Error           string           `json:"error"`
	AnswerSHA256    string           `json:"answerSha256"`
	Leaf            int64            `json:"leaf"` // index in the log, starting at 0
	Proof           tlog.RecordProof `json:"proof"`
}

func show(r domain.AttemptRecord, leaf int64, proof tlog.RecordProof) Attempt {
	return Attempt{
		EndpointID:      r.EndpointID,
		Number:          r.Number,
		SentAtMs:        r.SentAtMillis,
		DurationMs:      r.DurationMillis,
		BodySHA256:      hex.EncodeToString(r.BodySHA256),
		SignatureSHA256: hex.EncodeToString(r.SignatureSHA256),
		StatusCode:      r.StatusCode,
		Error:           string(r.Error),
		AnswerSHA256:    hex.EncodeToString(r.AnswerSHA256),
		Leaf:            leaf,
		Proof:           nonNil(proof),
	}
}

// nonNil makes JSON encode an empty proof as a list.
func nonNil(proof []tlog.Hash) []tlog.Hash {
	if proof == nil {
		return []tlog.Hash{}
	}
	return proof
}

func (a Attempt) record(eventID string) (domain.AttemptRecord, error) {
	r := domain.AttemptRecord{
		EventID:        eventID,
		EndpointID:     a.EndpointID,
		Number:         a.Number,
		SentAtMillis:   a.SentAtMs,
		DurationMillis: a.DurationMs,
		StatusCode:     a.StatusCode,
		Error:          domain.AttemptError(a.Error),
	}
	if !domain.IsID(domain.EventPrefix, eventID) {
		return r, fmt.Errorf("eventId %q is not an event id", eventID)
	}
	if !domain.IsID(domain.EndpointPrefix, a.EndpointID) {
		return r, fmt.Errorf("endpointId %q is not an endpoint id", a.EndpointID)
	}
	for _, c := range a.Error {
		if c != '_' && (c < 'A' || c > 'Z') {
			return r, fmt.Errorf("error %q is not an error code", a.Error)
		}
	}
	for _, f := range []struct {
		name, text string
		into       *[]byte
	}{
		{"bodySha256", a.BodySHA256, &r.BodySHA256},
		{"signatureSha256", a.SignatureSHA256, &r.SignatureSHA256},
		{"answerSha256", a.AnswerSHA256, &r.AnswerSHA256},
	} {
		var err error
		if *f.into, err = hex.DecodeString(f.text); err != nil || len(*f.into) != tlog.HashSize ||
			hex.EncodeToString(*f.into) != f.text {
			return r, fmt.Errorf("%s %q is not 64 lowercase hex digits", f.name, f.text)
		}
	}
	if len(a.Proof) > maxProof {
		return r, errors.New("proof has too many hashes")
	}
	return r, nil
}
