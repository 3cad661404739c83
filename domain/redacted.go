package domain

import (
	"fmt"
	"io"
)

// Secret is a string that prints as [redacted]: with every verb of fmt, in slog and in
// JSON. Convert it to string where it is used. Keep it in exported fields: fmt cannot call
// the methods of an unexported one. Do not use it as the key of a map: encoding/json writes
// those unredacted.
type Secret string

const redacted = "[redacted]"

// String returns the redaction.
func (Secret) String() string { return redacted }

// Format prints the redaction, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns the redaction, also for JSON, YAML and XML.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
