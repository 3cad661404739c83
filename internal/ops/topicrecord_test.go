package ops

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

// A snapshot's manifest must be printed unchanged, and its chunks by their sizes.
func TestASnapshotIsShown(t *testing.T) {
	for header, of := range map[string]struct{ value, want string }{
		task.HeaderChunk: {
			"\x28\xb5\x2f\xfd", `"type":"SnapshotChunk","value":{"chunk":"7","compressedBytes":4}`,
		},
		task.HeaderManifest: {`{"next":12}`, `"type":"SnapshotManifest","value":{"next":12}`},
	} {
		var out bytes.Buffer
		err := writeRecord(&out, kafka.Record{
			Topic:   schemas.TopicSnapshots,
			Key:     []byte("12.14.00000000"),
			Value:   []byte(of.value),
			Headers: []kafka.Header{{Key: header, Value: []byte("7")}},
		})
		if err != nil || !strings.Contains(out.String(), of.want) {
			t.Errorf("%s: %v, %s", header, err, &out)
		}
	}
}
