package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
)

const (
	// mostLedgerAge is how old the newest ledger may be: one closes about every six seconds.
	mostLedgerAge = time.Minute
	// mostApart is how many ledgers several sources may be apart.
	mostApart = 20
)

func (cfg *Config) ledgers(ctx context.Context, f *findings) {
	if cfg.NoLedgers != nil {
		f.unknown(cfg.NoLedgers, "correct the settings of the source")
		return
	}
	if len(cfg.Ledgers) == 0 {
		f.ok("no role that is checked reads ledgers")
		return
	}
	last := cfg.lastRead(ctx, f)
	type answer struct {
		findings
		latest uint32
	}
	answers := make(chan answer, len(cfg.Ledgers))
	for _, server := range cfg.Ledgers {
		go func() {
			a := answer{findings: findings{explain: f.explain}}
			a.latest = cfg.ledgerServer(ctx, server, &a.findings)
			if a.latest > 0 && last.Sequence > 0 {
				cfg.sameChain(ctx, server, last, &a.findings)
			}
			answers <- a
		}()
	}
	var latest []uint32
	for range cfg.Ledgers {
		a := <-answers
		f.list = append(f.list, a.list...)
		if a.latest > 0 {
			latest = append(latest, a.latest)
		}
	}
	cfg.agree(latest, f)
}

// lastRead returns the ledger that was followed last; zero: none was, or it is not known.
func (cfg *Config) lastRead(ctx context.Context, f *findings) schemas.LedgerRead {
	if len(cfg.Cluster.Brokers) == 0 {
		return schemas.LedgerRead{} // the check of kafka says so
	}
	cursor, err := follower.OpenCursor(cfg.Cluster, cfg.Passphrase)
	if err == nil {
		defer cursor.Close()
		var last schemas.LedgerRead
		if last, _, err = cursor.Newest(ctx); err == nil {
			return last
		}
	}
	f.unknown(fmt.Errorf("which ledger was read last is not known, and so whether the sources serve "+
		"the chain that was followed: %w", err), "see what the check of kafka says")
	return schemas.LedgerRead{}
}

// sameChain says whether a server serves another chain than the one that was followed.
func (cfg *Config) sameChain(
	ctx context.Context, server config.Server, last schemas.LedgerRead, f *findings,
) {
	reader, err := source.NewReader(server.Source, cfg.Passphrase)
	if err == nil {
		err = follower.CheckChain(ctx, reader, last)
	}
	switch {
	case errors.Is(err, follower.ErrOtherChain):
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "if the test network was reset, start its new "+
			"chain: lumenhook ledger reset; else name a server of the network that was followed")
	case err != nil && source.IsPermanent(err):
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "name a server that has the ledgers that are "+
			"followed")
	case err != nil:
		f.unknown(fmt.Errorf("%s: which chain it serves is not known: %w", server.Name, err),
			"see whether it answers at other times")
	}
}

// agree says whether enough servers answer, and see the same network.
func (cfg *Config) agree(latest []uint32, f *findings) {
	if len(latest) < cfg.Quorum {
		f.add(Problem, "name more servers, or let fewer agree (--ledger-quorum)",
			"%d of the servers must agree, and %d answer: no ledger is followed", cfg.Quorum, len(latest))
		return
	}
	if len(latest) < 2 {
		return
	}
	low, high := latest[0], latest[0]
	for _, n := range latest {
		low, high = min(low, n), max(high, n)
	}
	if high-low > mostApart {
		f.add(Warning, "leave out the one that is behind, or wait for it",
			"the newest ledgers of the servers are %d apart", high-low)
		return
	}
	f.ok("%d servers answer, and their newest ledgers are %d apart", len(latest), high-low)
}

// ledgerServer queries the network and the ledgers of one server.
func (cfg *Config) ledgerServer(
	ctx context.Context, server config.Server, f *findings,
) (latest uint32) {
	begin := time.Now()
	err := server.Source.Check(ctx)
	switch {
	case errors.Is(err, domain.ErrWrongNetwork):
		f.failed(err, "name a server of that network, or the other --network")
		return 0
	case err != nil:
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "see whether its address is right and it "+
			"can be reached from here, or name another server")
		return 0
	}
	took := time.Since(begin)
	report, err := server.Source.Report(ctx)
	if err != nil {
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "name another server, or wait for this one")
		return 0
	}
	cfg.ledgerReport(server.Name, report, took, f)
	return report.Latest
}

func (cfg *Config) ledgerReport(
	name string, report source.Report, took time.Duration, f *findings,
) {
	said := fmt.Sprintf("%s serves the network, in %d ms; its newest ledger is %d", name,
		took.Milliseconds(), report.Latest)
	if report.Oldest > 0 {
		said += fmt.Sprintf(", its oldest %d (%d back)", report.Oldest, report.Latest-report.Oldest)
	}
	if report.ClosedAt.IsZero() {
		f.ok("%s", said)
		return
	}
	age := cfg.Now().Sub(report.ClosedAt)
	said += fmt.Sprintf(", closed %s ago", age.Round(time.Second))
	if age > mostLedgerAge {
		f.add(Warning, "see whether the network stands still, the server lags, or this host's clock is "+
			"ahead", "%s", said)
		return
	}
	f.ok("%s", said)
}
