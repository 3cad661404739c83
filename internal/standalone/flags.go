package standalone

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/ledgerflags"
	"github.com/lumenhook/lumenhook/internal/nodeflags"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/stellar/devnet"
)

// Flags are the flags of `lumenhook run`, checked.
type Flags struct {
	dataDir          string
	kafkaListen      string
	clickhouseNative string
	clickhouseHTTP   string
	stellarListen    string
	receiverListen   string
	brokerSync       bool
	noDemo           bool
	demoInterval     time.Duration
	ledgerInterval   time.Duration
	node             nodeflags.Flags
	source           ledgerflags.Flags // without a network: the service follows its own
	stellarRetention uint32
	stellarFaults    string
	stellarLake      string
	holdFile         string // for tests
	faults           []devnet.Fault
	changed          func(name string) bool
}

// Register adds the flags.
func (s *Flags) Register(f *pflag.FlagSet) {
	f.StringVar(&s.dataDir, "data-dir", ".lumenhook", "folder of all data and secrets")
	cli.Group(f, "Kafka", func(f *pflag.FlagSet) {
		f.StringVar(&s.kafkaListen, "kafka-listen", "127.0.0.1:9092",
			"address of the embedded Kafka broker")
		f.BoolVar(&s.brokerSync, "broker-sync", false,
			"the embedded broker answers once what it wrote is on the disk, by fsync "+
				"(default true with --network)")
	})
	cli.Group(f, "ClickHouse", func(f *pflag.FlagSet) {
		f.StringVar(&s.clickhouseNative, "clickhouse-native-listen", "127.0.0.1:9000",
			"address of the embedded ClickHouse, native protocol")
		f.StringVar(&s.clickhouseHTTP, "clickhouse-http-listen", "127.0.0.1:8123",
			"address of the embedded ClickHouse, HTTP")
	})
	cli.Group(f, "Demo", func(f *pflag.FlagSet) {
		f.StringVar(&s.receiverListen, "receiver-listen", "127.0.0.1:8444",
			"address of the demo receiver (HTTPS); 8443 is left to a receiver of yours")
		f.BoolVar(&s.noDemo, "no-demo", false, "no demo receiver, endpoint, watch and payments")
		f.DurationVar(&s.demoInterval, "demo-interval", 15*time.Second,
			"time between the demo's payments")
	})
	cli.Group(f, "Development network", s.registerNetwork)
	s.source.Register(f, "")
	s.source.RegisterMoves(f)
	s.node.Register(f, "warn")
	f.StringVar(&s.holdFile, "fault-hold-file", "",
		"for tests: file that names a request of the broker to hold")
	_ = f.MarkHidden("fault-hold-file")
	s.changed = f.Changed
}

// registerNetwork adds the flags of the own network.
func (s *Flags) registerNetwork(f *pflag.FlagSet) {
	f.StringVar(&s.stellarListen, "stellar-listen", "127.0.0.1:8000",
		"address of the development network's RPC and friendbot")
	f.DurationVar(&s.ledgerInterval, "ledger-interval", time.Second,
		"time between ledgers of the development network")
	f.Uint32Var(&s.stellarRetention, "stellar-retention", 0,
		"ledgers that the development network keeps; 0: as many as a public server")
	f.StringVar(&s.stellarFaults, "stellar-faults", "", "for tests: answers of the development "+
		"network to spoil, KIND@LEDGERxANSWERS, comma-separated; the kinds are errors, garbage, gap, "+
		"behind, reset, frozen, ahead, form, unauthorized, quota and hang")
	f.StringVar(&s.stellarLake, "stellar-lake", "",
		"folder to export the development network's ledgers to, as a lake")
}

// Check parses the values and returns every fault.
func (s *Flags) Check() (faults []error) {
	fault := func(flag, value string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s %q: %w", flag, value, err))
		}
	}
	var err error
	if s.dataDir == "" {
		fault("data-dir", s.dataDir, runfile.ErrNoFolder)
	} else if s.dataDir, err = filepath.Abs(s.dataDir); err != nil {
		fault("data-dir", s.dataDir, err)
	}
	for flag, address := range map[string]string{
		"kafka-listen":             s.kafkaListen,
		"clickhouse-native-listen": s.clickhouseNative,
		"clickhouse-http-listen":   s.clickhouseHTTP,
		"stellar-listen":           s.stellarListen,
		"receiver-listen":          s.receiverListen,
	} {
		fault(flag, address, cli.CheckAddress(address))
	}
	s.faults, err = devnet.ParseFaults(s.stellarFaults)
	fault("stellar-faults", s.stellarFaults, err)
	if s.demoInterval < 10*time.Millisecond || s.demoInterval > time.Hour {
		fault("demo-interval", s.demoInterval.String(), errors.New("must be from 10ms to 1h"))
	}
	if s.ledgerInterval < 50*time.Millisecond || s.ledgerInterval > time.Hour {
		fault("ledger-interval", s.ledgerInterval.String(), errors.New("must be from 50ms to 1h"))
	}
	if s.node.HasTLS() && !s.noDemo {
		faults = append(faults,
			errors.New("--api-tls-cert: the demo speaks to the API without TLS: add --no-demo"))
	}
	faults = slices.Concat(faults, s.checkNetwork(), s.node.Check())
	unfit, reason := otherNetworkFlags, "needs --network"
	if !s.ownNetwork() {
		unfit = ownNetworkFlags
		reason = "is of the development network, which is not started with --network"
	}
	for _, flag := range unfit {
		if s.changed(flag) { // whatever its value is
			faults = append(slices.DeleteFunc(faults, func(err error) bool {
				return err != nil && strings.HasPrefix(err.Error(), "--"+flag+" ")
			}), fmt.Errorf("--%s %s", flag, reason))
		}
	}
	return faults
}

// ownNetwork reports whether run follows a development network that it starts.
func (s *Flags) ownNetwork() bool {
	return s.source.Network == "" || s.source.Network == ledgerflags.Devnet
}

// otherNetwork returns the passphrase of the network that run follows, or "" of its own.
func (s *Flags) otherNetwork() string {
	if s.ownNetwork() {
		return ""
	}
	return s.source.Passphrase
}

// Flags that concern another network, and the own one.
var (
	otherNetworkFlags = []string{
		"ledger-source", "stellar-rpc-url", "ledger-lake", "lake-ledgers-per-file",
		"lake-files-per-partition", "ledger-poll-interval", "trusted-ledger", "ledger-quorum",
	}
	ownNetworkFlags = []string{
		"stellar-retention", "stellar-faults", "stellar-lake", "ledger-interval",
	}
)

// checkNetwork returns every fault of the network's flags. On another network than the own
// one, acknowledged data is valuable: the broker uses fsync.
func (s *Flags) checkNetwork() (faults []error) {
	if s.ownNetwork() {
		return []error{s.source.CheckStart()}
	}
	if err := s.source.CheckNetwork(); err != nil {
		return []error{err}
	}
	if !s.changed("broker-sync") {
		s.brokerSync = true
	}
	faults = []error{s.source.Check()}
	if !s.noDemo {
		faults = append(faults, errors.New("--network: the demo pays on the development "+
			"network only: add --no-demo"))
	}
	return faults
}
