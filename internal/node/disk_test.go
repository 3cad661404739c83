package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// oneLedger is a source that always has a ledger.
type oneLedger struct{ follower.Source }

func (oneLedger) Next(_ context.Context, sequence uint32) ([]domain.Ledger, error) {
	return []domain.Ledger{{Sequence: sequence}}, nil
}

func TestWithoutRoomNoNewWorkIsTaken(t *testing.T) {
	var said strings.Builder
	free := uint64(300 << 20)
	r := &DiskGuard{
		leastBytes: 256 << 20,
		free:       func() (uint64, error) { return free, nil },
		say:        func(format string, args ...any) { fmt.Fprintf(&said, format, args...) },
		logger:     slog.New(slog.DiscardHandler),
	}
	source := guardedSource{oneLedger{}, r}
	if r.look(); r.Check() != nil {
		t.Fatalf("with 300 MiB free: %v", r.Check())
	}
	if _, err := source.Next(t.Context(), 7); err != nil {
		t.Fatal(err)
	}

	free = 255 << 20
	r.look()
	r.look() // reported only once
	if _, err := (submitter{disk: r}).Submit(t.Context(), domain.Command{}); !errors.Is(err,
		api.ErrWritesRefused) || !strings.Contains(err.Error(), "255 MiB") {
		t.Errorf("a command was answered %v", err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := source.Next(t.Context(), 8)
		got <- err
	}()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.await(ended) // returns although there is no space
	select {
	case <-got:
		t.Error("a ledger was read without room to tell of it")
	default:
	}

	free = 257 << 20
	r.look()
	if err := <-got; err != nil || r.Check() != nil {
		t.Errorf("with room again: %v, %v", err, r.Check())
	}
	if text := said.String(); strings.Count(text, "DISK FULL") != 1 ||
		strings.Count(text, "disk space available again") != 1 {
		t.Errorf("said %q", text)
	}
}
