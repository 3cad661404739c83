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
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/runfile"
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
	logFormat        string
	own              config.Flags
	node             config.Node
	source           config.Ledgers // without a network: the service follows its own
	holdFile         string         // for tests
	faults           []devnet.Fault
}

// Register adds the flags.
func (s *Flags) Register(f *pflag.FlagSet) {
	cli.RegisterConfig(f)
	s.own.Group(f, "", "",
		config.Value("data-dir", &s.dataDir, ".lumenhook", "folder for all data and secrets",
			config.Into(&s.dataDir, absolute)),
		config.Value("log-format", &s.logFormat, "auto", "output format: text, json, or auto for text "+
			"on a terminal and json elsewhere; only text includes payments' memos, and json's default "+
			"--log-level is info", checkLogFormat).Of("auto", "text", "json"))
	s.own.Group(f, "Kafka", "",
		config.Value("kafka-listen", &s.kafkaListen, "127.0.0.1:9092",
			"address for the embedded Kafka broker to listen on", cli.CheckAddress),
		config.Value("broker-sync", &s.brokerSync, false, "make the embedded broker wait for data to "+
			"be synced to disk (fsync) before it responds (default true with --network)"))
	s.own.Group(f, "ClickHouse", "",
		config.Value("clickhouse-native-listen", &s.clickhouseNative, "127.0.0.1:9000",
			"address for the embedded ClickHouse to listen on (native protocol)", cli.CheckAddress),
		config.Value("clickhouse-http-listen", &s.clickhouseHTTP, "127.0.0.1:8123",
			"address for the embedded ClickHouse to listen on (HTTP)", cli.CheckAddress))
	s.own.Group(f, "Demo", "",
		config.Value("receiver-listen", &s.receiverListen, "127.0.0.1:8444", "address for the demo "+
			"receiver to listen on (HTTPS); port 8443 stays free for your own receiver", cli.CheckAddress),
		config.Value("no-demo", &s.noDemo, false,
			"don't start the demo receiver, endpoint, watch and payments"),
		config.Bounded("demo-interval", &s.demoInterval, 15*time.Second,
			"time between demo payments", 10*time.Millisecond, time.Hour))
	s.registerNetwork(f)
	s.source.Register(f, "")
	s.source.RegisterMoves(f)
	s.node.Register(f, "warn")
	f.StringVar(&s.holdFile, "fault-hold-file", "",
		"for tests: file with the name of a broker request to hold")
	_ = f.MarkHidden("fault-hold-file")
	cli.Brief(f, "config", "data-dir", "network", "stellar-rpc-url", "no-demo", "api-listen",
		"metrics-listen", "egress-ports", "egress-allow", "log-level")
}

// registerNetwork adds the flags of the own network.
func (s *Flags) registerNetwork(f *pflag.FlagSet) {
	s.own.Group(f, "Development network", "",
		config.Value("stellar-listen", &s.stellarListen, "127.0.0.1:8000",
			"address for the devnet's RPC server and friendbot to listen on", cli.CheckAddress),
		config.Bounded("ledger-interval", &s.ledgerInterval, time.Second,
			"time between devnet ledgers", 50*time.Millisecond, time.Hour),
		config.Value("stellar-faults", new(string), "", "for tests: comma-separated faults to inject "+
			"into devnet responses, as KIND@LEDGERxANSWERS; the kinds are errors, garbage, gap, behind, "+
			"reset, frozen, ahead, form, unauthorized, quota and hang",
			config.Into(&s.faults, devnet.ParseFaults)))
	_ = f.MarkHidden("stellar-faults")
}

func checkLogFormat(text string) error {
	if !slices.Contains([]string{"auto", "text", "json"}, text) {
		return errors.New("must be auto, text or json")
	}
	return nil
}

func absolute(dir string) (string, error) {
	if dir == "" {
		return "", runfile.ErrNoFolder
	}
	return filepath.Abs(dir)
}

// Check parses the values and returns every fault.
func (s *Flags) Check() []error {
	faults := s.own.Faults()
	if s.node.Set.API.Server.CertFile != "" && !s.noDemo {
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
		if s.own.Changed(flag) { // whatever its value is
			faults = append(slices.DeleteFunc(faults, func(err error) bool {
				return err != nil && strings.HasPrefix(err.Error(), "--"+flag+" ")
			}), fmt.Errorf("--%s %s", flag, reason))
		}
	}
	return faults
}

// ownNetwork reports whether run follows a development network that it starts.
func (s *Flags) ownNetwork() bool {
	return s.source.Network == "" || s.source.Network == config.Devnet
}

// otherNetwork returns the passphrase of the network that run follows, or "" for the development
// network.
func (s *Flags) otherNetwork() string {
	if s.ownNetwork() {
		return ""
	}
	return s.source.Passphrase
}

// Flags that concern another network, and the own one.
var (
	otherNetworkFlags = []string{
		"ledger-source", "stellar-rpc-url", "ledger-lake", "ledger-poll-interval", "trusted-ledger",
		"ledger-quorum",
	}
	ownNetworkFlags = []string{
		"stellar-faults", "ledger-interval",
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
	if !s.own.Changed("broker-sync") {
		s.brokerSync = true
	}
	faults = []error{s.source.Check()}
	if !s.noDemo {
		faults = append(faults, errors.New("--network: the demo pays on the development "+
			"network only: add --no-demo"))
	}
	return faults
}
