package kafka

import (
	"strconv"
	"testing"
)

func recordsOf(n int) []Record {
	records := make([]Record, n)
	for i := range records {
		topic := "journal"
		if i >= n/2 {
			topic = "results"
		}
		records[i] = NewRecord(topic, "key "+strconv.Itoa(i), []byte("value"),
			func(yield func(name, value string) bool) {
				_ = yield("type", "DeliveryCreated") && yield("v", "1")
			})
		records[i].Partition = int32(i % 4) // #nosec G115 -- small
	}
	return records
}

// The client gets each record unchanged, under the prefixed name of its topic.
func TestToKafka(t *testing.T) {
	c := Cluster{Prefix: "lumenhook."}
	records := recordsOf(10)
	for i, k := range c.toKafka(records) {
		want := records[i]
		if k.Topic != "lumenhook."+want.Topic || k.Partition != want.Partition ||
			string(k.Key) != string(want.Key) || string(k.Value) != "value" || len(k.Headers) != 2 {
			t.Errorf("record %d is %+v", i, k)
		}
		if back := c.fromKafka(k); back.Topic != want.Topic || back.Header("v") != "1" {
			t.Errorf("record %d is read as %+v", i, back)
		}
	}
}

// BenchmarkToKafka creates the records of a turn and converts them for the client. It does so for
// 1,000 records at a time, so one allocation per batch counts as a thousandth per record.
func BenchmarkToKafka(b *testing.B) {
	c := Cluster{Prefix: "lumenhook."}
	b.ReportAllocs()
	for b.Loop() {
		c.toKafka(recordsOf(1000))
	}
}
