package apicli

import (
	"encoding/json"
	"io"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// ShowHistory prints facts for people, a line for each field that one changed: its name in the
// journal, and what that means.
func ShowHistory(w io.Writer, l client.List[client.Fact]) {
	cli.Row(w, "AT", "VERSION", "FACT", "WHAT HAPPENED", "FIELD", "BEFORE", "AFTER")
	for _, f := range l.Data {
		at, version, name, words := any(f.At), any(f.Version), f.Fact, f.Words()
		if len(f.Changes) == 0 {
			cli.Row(w, at, version, name, words, client.NoChanges, "", "")
		}
		for _, c := range f.Changes {
			cli.Row(w, at, version, name, words, c.Field, valueText(c.Before), valueText(c.After))
			at, version, name, words = "", "", "", ""
		}
	}
	cli.More(w, l.NextCursor)
}

// valueText is a JSON value as people read it: a text without its quotes, and nothing for null.
func valueText(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	if text == nil {
		return ""
	}
	return *text
}
