package node

import (
	"context"
	"strings"
	"time"
)

const (
	readyMax      = 5 * time.Second
	readyInterval = 100 * time.Millisecond
	// A part that is not ready is reported after unreadyQuiet, and again after unreadyInterval if
	// the reason has changed.
	unreadyQuiet    = 2 * time.Second
	unreadyInterval = 10 * time.Second
)

// AwaitReady waits until every part is ready, as for /readyz, and reports parts that are not. It
// returns false if ctx is done before.
func (n *Node) AwaitReady(ctx context.Context) bool {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	told, next := "", time.Now().Add(unreadyQuiet)
	for {
		waits := n.Waits(ctx)
		if ctx.Err() != nil {
			return false
		}
		if waits == "" {
			return true
		}
		if now := time.Now(); waits != told && now.After(next) {
			n.cfg.Say("not ready yet: %s", waits)
			told, next = waits, now.Add(unreadyInterval)
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// Waits lists the parts that are not ready, with the reasons.
func (n *Node) Waits(ctx context.Context) string {
	var parts []string
	for _, r := range n.readyNow(ctx) {
		if r.Err != nil {
			parts = append(parts, r.Name+": "+r.Err.Error())
		}
	}
	return strings.Join(parts, "; ")
}

func (n *Node) readyNow(ctx context.Context) []Report {
	ctx, cancel := context.WithTimeout(ctx, readyMax)
	defer cancel()
	return n.Ready(ctx)
}
