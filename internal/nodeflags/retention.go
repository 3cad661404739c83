package nodeflags

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
)

// retentionFlags say how long the topics keep what nobody needs any more.
type retentionFlags struct {
	text    string
	keep    time.Duration
	records int64
	mib     int64
}

// bounds reports whether anything is to be deleted.
func (s *retentionFlags) bounds() bool { return s.keep > 0 || s.records > 0 || s.mib > 0 }

func (s *retentionFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.text, "topic-retention", "0", "how long the topics keep records that are in "+
		"the history and that no restore needs, such as 90d; 0 keeps everything. What is needed stays")
	f.Int64Var(&s.records, "topic-retention-records", 0,
		"how many of such records each partition keeps at most; 0: any number")
	f.Int64Var(&s.mib, "topic-retention-mib", 0,
		"how many MiB of such records each partition keeps, and up to a file more; 0: any number")
}

// check returns every fault.
func (s *retentionFlags) check() (faults []error) {
	var err error
	if s.keep, err = cli.ParseDays(s.text); err != nil {
		faults = append(faults, fmt.Errorf("--topic-retention %q: %w", s.text, err))
	}
	if s.records < 0 {
		faults = append(faults,
			fmt.Errorf("--topic-retention-records %d: must be 0 or more", s.records))
	}
	if s.mib < 0 || s.mib > 1<<40 {
		faults = append(faults,
			fmt.Errorf("--topic-retention-mib %d: must be from 0 to 2^40", s.mib))
	}
	return faults
}
