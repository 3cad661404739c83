package streams_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/streams"
)

// A position that one member committed, and its note, are what the group's next member
// reads.
func TestPositionsOutliveTheirMember(t *testing.T) {
	r, _ := newFakeRig(t)
	join := func() *streams.Membership {
		assigned := make(chan struct{}, 8)
		m, err := r.cluster.Join(streams.MembershipConfig{
			Group:    sumGroup,
			Topic:    numbersTopic,
			Now:      time.Now,
			Assigned: func([]int32) { assigned <- struct{}{} },
			Revoked:  func([]int32) {},
			Lost:     func([]int32) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		<-assigned
		return m
	}
	first := join()
	if at, err := first.Positions(t.Context()); err != nil || len(at) != 0 {
		t.Fatalf("a group that committed nothing is at %v, %v", at, err)
	}
	want := streams.Position{Next: 7, Note: strings.Repeat("x", streams.MaxNoteBytes)}
	if err := first.Commit(t.Context(), 1, want); err != nil {
		t.Fatal(err)
	}
	err := first.Commit(t.Context(), 1, streams.Position{Next: 8, Note: want.Note + "x"})
	if err == nil {
		t.Error("a note was taken that a broker refuses")
	}
	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Commit(t.Context(), 1, streams.Position{Next: 9}); err == nil {
		t.Error("who has left the group could commit")
	}
	second := join()
	if at, err := second.Positions(t.Context()); err != nil || len(at) != 1 || at[1] != want {
		t.Errorf("the next member finds %v, %v", at, err)
	}
	if err := second.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOffsetsSinceATime(t *testing.T) {
	r, _ := newFakeRig(t)
	producer, err := r.cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	record := streams.NewRecord(numbersTopic, "a", []byte("1"), func(func(string, string) bool) {})
	if err := producer.Append(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	ends, err := r.cluster.NewEnds()
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	for ago, want := range map[time.Duration]int64{time.Hour: 0, -time.Hour: 1} {
		since, err := ends.Since(t.Context(), numbersTopic, time.Now().Add(-ago))
		if err != nil {
			t.Fatal(err)
		}
		if got := since[0] + since[1]; len(since) != 2 || got != want {
			t.Errorf("%s ago: %v", ago, since)
		}
	}
}
