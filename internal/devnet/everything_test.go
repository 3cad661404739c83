package devnet_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devtraffic"
)

// open runs a network whose ledgers close when the test says so.
func open(t *testing.T, change func(*devnet.Config)) (*devnet.Network, devnet.Identities) {
	t.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	config := devnet.Config{
		Dir:           t.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: time.Hour,
	}
	if change != nil {
		change(&config)
	}
	n, err := devnet.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n, ids
}

func drive(t *testing.T, n *devnet.Network, ids devnet.Identities, steps int) *devtraffic.Traffic {
	t.Helper()
	traffic, err := devtraffic.New(t.Context(), n, ids)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = traffic.Close() })
	for i := range steps {
		if err := traffic.Step(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	return traffic
}

func TestParseFaults(t *testing.T) {
	got, err := devnet.ParseFaults("errors@30x10, gap@50")
	if err != nil ||
		!slices.Equal(got,
			[]devnet.Fault{
				{Kind: devnet.FaultErrors, Ledger: 30, Answers: 10},
				{Kind: devnet.FaultGap, Ledger: 50, Answers: 1},
			}) {
		t.Errorf("got %v (%v)", got, err)
	}
	for _, text := range []string{"errors", "gap@", "gap@0", "gap@5x0", "flood@5", "gap@x"} {
		if _, err := devnet.ParseFaults(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}
