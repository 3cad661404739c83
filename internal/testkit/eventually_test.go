package testkit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

func TestEventuallyReturnsOnceItHolds(t *testing.T) {
	looked := 0
	testkit.Eventually(t, "the third look", func() bool { looked++; return looked == 3 })
	if looked != 3 {
		t.Errorf("%d looks, want 3", looked)
	}
}

// failing is a test whose run ends soon. It records its failure.
type failing struct {
	testing.TB
	deadline time.Time
	said     string
}

func (f *failing) Deadline() (time.Time, bool) { return f.deadline, true }
func (f *failing) Helper()                     {}
func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
}

func TestWhatNeverHoldsFailsTheTestWithTheReason(t *testing.T) {
	f := &failing{TB: t, deadline: time.Now().Add(100 * time.Millisecond)}
	testkit.EventuallyNil(f, "an answer", func() error { return errors.New("it is away") })
	if !strings.Contains(f.said, "never came true: an answer: it is away") {
		t.Errorf("the test says %q", f.said)
	}
	f = &failing{TB: t, deadline: f.deadline}
	testkit.Eventually(f, "a wonder", func() bool { return false })
	if !strings.Contains(f.said, "never came true: a wonder") {
		t.Errorf("the test says %q", f.said)
	}
}

func TestPatienceIsHalfOfWhatTheRunHasLeft(t *testing.T) {
	f := &failing{TB: t, deadline: time.Now().Add(time.Hour)}
	if got := testkit.Patience(f); got > 30*time.Minute || got < 29*time.Minute {
		t.Errorf("%v of an hour, want half", got)
	}
}
