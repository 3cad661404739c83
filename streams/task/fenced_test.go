package task_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

func number(key, value string) kafka.Record {
	return kafka.NewRecord(numbersTopic, key, []byte(value), func(func(name, value string) bool) {})
}

func (r *rig) committed(topic string) map[string]int32 {
	r.t.Helper()
	values := make(map[string]int32)
	for _, record := range r.read(topic) {
		values[string(record.Value)] = record.Partition
	}
	return values
}

// A fenced former owner of the transactional ID cannot append. The current owner partitions its
// records as a Producer does.
func TestFencedProducer(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	former, err := r.cluster.NewFencedProducer(ctx, "judge")
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	if err := former.Append(ctx); err != nil {
		t.Errorf("appending nothing: %v", err)
	}
	if err := former.Append(ctx, number("a", "first a"), number("b",
		"first b"), number("c", "first c")); err != nil {
		t.Fatal(err)
	}
	present, err := r.cluster.NewFencedProducer(ctx, "judge")
	if err != nil {
		t.Fatal(err)
	}
	defer present.Close()
	if err := former.Append(ctx, number("a", "late")); err == nil {
		t.Error("a former owner appended")
	}
	if err := present.Append(ctx, number("a", "second a")); err != nil {
		t.Fatal(err)
	}
	plain, err := r.cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.Append(ctx, number("a", "plain a"), number("b",
		"plain b"), number("c", "plain c")); err != nil {
		t.Fatal(err)
	}
	got := r.committed(numbersTopic)
	if len(got) != 7 {
		t.Errorf("the topic has %v", got)
	}
	for _, key := range []string{"a", "b", "c"} {
		if got["first "+key] != got["plain "+key] || got["second a"] != got["plain a"] {
			t.Errorf("key %s lies elsewhere: %v", key, got)
		}
	}
}
