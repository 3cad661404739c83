package engine

import "github.com/lumenhook/lumenhook/domain"

// Effect is what a committed turn has its process do: one of [Begin], [Forget] and
// [Disconnect].
//
//sumtype:decl
type Effect interface{ effect() }

type (
	// Begin makes an attempt. What it brings back is an [Outcome].
	Begin struct{ Attempt domain.Attempt }

	// Forget ends the keeping of an attempt: it is recorded, or never will be.
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

// Outcome is what an attempt brought back.
type Outcome struct {
	Attempt domain.Attempt
	Result  domain.AttemptResult
}
