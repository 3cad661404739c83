package task_test

import (
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

func TestPositionsOutliveTheirMember(t *testing.T) {
	r, _ := newFakeRig(t)
	join := func() *kafka.Membership {
		assigned := make(chan struct{}, 8)
		m, err := r.cluster.Join(kafka.MembershipConfig{
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
	if err := first.Commit(t.Context(), kafka.Offsets{numbersTopic: {1: 7}}); err != nil {
		t.Fatal(err)
	}
	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Commit(t.Context(), kafka.Offsets{numbersTopic: {1: 9}}); err == nil {
		t.Error("who has left the group could commit")
	}
	second := join()
	if at, err := second.Positions(t.Context()); err != nil || len(at) != 1 || at[1] != 7 {
		t.Errorf("the next member finds %v, %v", at, err)
	}
	if err := second.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
