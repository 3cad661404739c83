package apicli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
)

// Each fact must be described in words, even if it changed nothing that the API shows.
func TestFactsAreSaidInWords(t *testing.T) {
	var table strings.Builder
	ShowHistory(&table, client.List[client.Fact]{Data: []client.Fact{
		{Version: 3, Fact: "RangeCovered"},
		{Version: 2, Fact: "WatchUpdated", Changes: []client.FieldChange{
			{Field: "label", Before: json.RawMessage(`"Till 1"`), After: json.RawMessage(`null`)},
			{Field: "unlimited", Before: json.RawMessage(`false`), After: json.RawMessage(`true`)},
		}},
		{Version: 1, Fact: "NotKnownYet"},
	}})
	lines := strings.Split(table.String(), "\n")
	for i, want := range []string{
		"\tFACT\tWHAT HAPPENED\tFIELD\t",
		"\t3\tRangeCovered\tLedgers read\tnothing that the API shows\t-\t-",
		"\t2\tWatchUpdated\tChanged\tlabel\tTill 1\t-",
		"-\t-\t-\t-\tunlimited\tfalse\ttrue",
		"\t1\tNotKnownYet\tNot",
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d is not %q in\n%s", i, want, &table)
		}
	}
}
