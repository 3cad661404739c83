package node

import (
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

func TestRunTimeIsThatOfTheSchedule(t *testing.T) {
	if got := runTime(domain.DefaultSchedule(), 10*time.Second); got < 56*time.Hour ||
		got > 57*time.Hour {
		t.Errorf("all attempts take %s", got)
	}
}
