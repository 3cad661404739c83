package engine

import "github.com/lumenhook/lumenhook/domain"

// Effect is what the process does after a turn was committed: one of [Begin], [Forget] and
// [Disconnect].
//
//sumtype:decl
type Effect interface{ effect() }

type (
	// Begin makes an attempt. It ends in an [Outcome].
	Begin struct{ Attempt domain.Attempt }

	// Forget drops a finished attempt: it is recorded, or never will be.
	Forget struct {
		EventID string
		Number  int
	}

	// Disconnect says that an endpoint no longer sends to a URL.
	Disconnect struct{ URL string }
)

func (Begin) effect()      {}
func (Forget) effect()     {}
func (Disconnect) effect() {}

// Outcome is an attempt with its result: the completion of a [Begin].
type Outcome struct {
	Attempt domain.Attempt
	Result  domain.AttemptResult
}
