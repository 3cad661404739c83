package domain

import (
	"fmt"
	"io"
)

// Secret is a string that prints as [redacted]: with every verb of fmt, in slog
// and in JSON. Convert it to string where it is used. Keep it in exported fields:
// fmt cannot ask the value of an unexported one how it wants to be printed. Do
// not make it the key of a map: encoding/json writes those as they are.
type Secret string

const redacted = "[redacted]"

// String gives the redaction.
func (Secret) String() string { return redacted }

// Format prints the redaction, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText gives the redaction, to JSON, YAML and XML too.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
