package doctor

import (
	"context"
	"time"

	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/mailer"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// Config says what to check.
type Config struct {
	What string // a description
	// why a service of lumenhook run does not run; nil: it runs, or this is not one
	Away        error
	Faults      []error  // of its settings
	SecretFiles []string // that others must not read

	Cluster  kafka.Cluster
	Embedded bool // broker and database are those of lumenhook run
	Topology topology.CheckOptions

	ClickHouse   string // DSN; empty: no database
	NoClickHouse string // why
	Ledgers      []config.Server
	Clocks       []config.Server // the same once more, since each is asked by one goroutine
	Quorum       int             // of them
	Passphrase   string          // of their network
	NoLedgers    error
	Egress       egress.Config
	TryURL       string // a receiver's; empty: none is tried
	DataDir      string
	LeastFree    uint64 // bytes, of the data folder's disk
	LeastFiles   uint64 // that the process must be allowed to have open
	Mail         *mailer.SMTP
	MailServer   string
	Only         []string // names of checks; none: all
	Timeout      time.Duration
	Explain      func(error) string
	Now          func() time.Time
}

// ofService is a check of something that only a running service has or reports: its addresses, and
// its start options. Without the service the check is skipped.
func (cfg *Config) ofService(run checkFunc) checkFunc {
	if cfg.Away == nil {
		return run
	}
	return func(_ context.Context, f *findings) {
		f.add(Unknown, "", "left out, as the service does not run")
	}
}

// Configuration is the check that says what is checked, or why a service does not run.
const Configuration = "configuration"

// checks are all checks, in the order in which they are listed.
func (cfg *Config) checks() []check {
	return []check{
		{Configuration, cfg.configuration},
		{"files", cfg.files},
		{"kafka", cfg.ofService(cfg.kafka)},
		{"topics", cfg.ofService(cfg.topics)},
		{"transactions", cfg.ofService(cfg.transactions)},
		{"rights", cfg.ofService(cfg.rights)},
		{"clickhouse", cfg.ofService(cfg.clickhouse)},
		{"ledgers", cfg.ofService(cfg.ledgers)},
		{"clock", cfg.ofService(cfg.clock)},
		{"dns", cfg.dns},
		{"egress", cfg.ofService(cfg.egress)},
		{"disk", cfg.disk},
		{"limits", cfg.limits},
		{"mail", cfg.mail},
	}
}
