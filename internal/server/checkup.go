package server

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/doctor"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// Checkup contains the flags of `lumenhook doctor`, which include those of `lumenhook serve`.
type Checkup struct {
	Flags
	only    []string
	timeout time.Duration
	url     string
	flags   *pflag.FlagSet
}

// Register adds the flags to a flag set.
func (c *Checkup) Register(f *pflag.FlagSet) {
	c.Flags.Register(f)
	cli.TakesAnyConfig(f) // also a file of lumenhook run
	f.Lookup("data-dir").Usage = "folder for a process's state, or data folder of lumenhook run; " +
		"without --kafka-brokers, the command checks the service in this folder"
	f.StringSliceVar(&c.only, "only", nil, "only run these checks: "+
		strings.Join(doctor.Names(), ", "))
	f.DurationVar(&c.timeout, "timeout", 10*time.Second, "timeout for each check (100ms to 5m)")
	f.StringVar(&c.url, "url", "",
		"https:// URL of a receiver, to test the connection the way an attempt would; sends no request")
	c.flags = f
}

// Config returns what to check, or an error if the flags are invalid or there is nothing to check.
func (c *Checkup) Config() (doctor.Config, error) {
	var faults []error
	if err := doctor.CheckNames(c.only); err != nil {
		faults = append(faults, fmt.Errorf("--only: %w", err))
	}
	if c.timeout < 100*time.Millisecond || c.timeout > 5*time.Minute {
		faults = append(faults, fmt.Errorf("--timeout %s: must be from 100ms to 5m", c.timeout))
	}
	if err := cli.Faults(faults); err != nil {
		return doctor.Config{}, cli.Usage(err)
	}
	cfg := doctor.Config{
		DataDir: c.dataDir,
		Only:    c.only,
		Timeout: c.timeout,
		TryURL:  c.url,
		Explain: func(err error) string { return cli.OneLine(cli.Explain(err, c.flags)) },
		Now:     time.Now,
	}
	err := c.fill(&cfg)
	return cfg, err
}

func (c *Checkup) fill(cfg *doctor.Config) error {
	if len(c.kafka.Brokers) > 0 {
		c.ofServe(cfg)
	} else if err := c.ofRun(cfg); err != nil {
		return err
	}
	cfg.LeastFree = node.LeastFreeBytes
	cfg.LeastFiles = c.node.Connections(1)
	cfg.MailServer = c.node.Mail.Addr
	var err error
	if cfg.Mail, err = c.node.Mail.Sender(); err != nil {
		cfg.Mail = nil // reported as a configuration problem
	}
	return nil
}

func (c *Checkup) ofServe(cfg *doctor.Config) {
	cfg.Faults = each(c.Check())
	names := roleNames(c.roles)
	cfg.What = "a process of lumenhook serve with the roles " + strings.Join(names, ", ")
	if len(names) == 0 {
		cfg.What = "a process of lumenhook serve without roles"
	}
	cfg.Cluster, _ = c.cluster(slog.New(slog.DiscardHandler)) // Check has reported its faults
	cfg.Cluster.Quiet = true
	cfg.Topology = topology.CheckOptions{
		Partitions: c.partitions,
		Roles:      names,
		Accept:     c.accept,
		Now:        time.Now,
	}
	cfg.ClickHouse = c.node.ClickHouse.Address
	cfg.NoClickHouse = "no --clickhouse-dsn is given"
	cfg.SecretFiles = c.secretFiles()
	cfg.Egress = c.node.Config().Egress
	if !slices.Contains(c.roles, node.RoleFollower) && !slices.Contains(c.roles, node.RoleAPI) {
		return
	}
	c.configureLedgerChecks(cfg)
}

func each(err error) []error {
	several, are := err.(interface{ Unwrap() []error })
	switch {
	case are:
		return several.Unwrap()
	case err != nil:
		return []error{err}
	}
	return nil
}

func (c *Checkup) configureLedgerChecks(cfg *doctor.Config) {
	var again error
	cfg.Ledgers, cfg.NoLedgers = c.source.Servers()
	cfg.Clocks, again = c.source.Servers()
	cfg.NoLedgers = cmp.Or(cfg.NoLedgers, again)
	cfg.Quorum, cfg.Passphrase = c.source.Quorum, c.source.Passphrase
}

// secretFiles returns the secret files in the settings, without certificates and authorities.
func (c *Checkup) secretFiles() (paths []string) {
	c.flags.VisitAll(func(f *pflag.Flag) {
		secret := strings.HasSuffix(f.Name, "-password-file") || strings.HasSuffix(f.Name, "-key-file") ||
			strings.HasSuffix(f.Name, "-token-file") || f.Name == "api-tls-key"
		if path := f.Value.String(); secret && path != "" {
			paths = append(paths, path)
		}
	})
	key := c.masterKey()
	if _, set := key.FromVariable(); !set && c.masterKeyFile == "" &&
		(slices.Contains(c.roles, node.RoleAPI) || slices.Contains(c.roles, node.RoleEngine)) {
		paths = append(paths, key.Path())
	}
	beside := cmp.Or(c.signingKeysFile, keys.SigningKeyPath(key.Path()))
	if _, err := os.Stat(beside); err == nil || c.signingKeysFile != "" {
		paths = append(paths, beside)
	}
	return paths
}

// ofRun checks the service of `lumenhook run` that uses the data folder.
func (c *Checkup) ofRun(cfg *doctor.Config) error {
	run, err := runfile.Read(c.dataDir)
	switch {
	case errors.Is(err, runfile.ErrNoFolder):
		return err
	case err != nil:
		c.ofStopped(cfg, err)
		return nil
	}
	dir := c.dataDir
	fault := cli.Give(c.flags, run.Settings)
	c.dataDir = dir
	cfg.Faults = each(cli.Faults(append(c.node.Check(), fault)))
	cfg.PID = run.PID
	cfg.What = fmt.Sprintf("the service of %s, which runs as process %d", c.dataDir, run.PID)
	cfg.Cluster, _ = c.cluster(slog.New(slog.DiscardHandler))
	cfg.Cluster.Brokers, cfg.Cluster.SASL, cfg.Cluster.TLS = run.KafkaBrokers, run.Kafka.SASL(),
		kafka.TLS{}
	cfg.Cluster.Quiet, cfg.Embedded = true, true
	cfg.Topology = topology.CheckOptions{
		Replicas: 1, // as documented: one copy of each record on this machine
		Roles:    roleNames(node.Roles()),
		Accept:   []string{topology.Replication, topology.MinInSync},
		Now:      time.Now,
	}
	cfg.NoClickHouse = cmp.Or(run.NoHistory, "the service was started with --clickhouse-dsn")
	if run.ClickHouse != nil {
		cfg.ClickHouse = run.ClickHouse.DSN(run.ClickHouse.Login)
	}
	cfg.SecretFiles = filesIn(filepath.Join(c.dataDir, "secrets"))
	cfg.SecretFiles = append(cfg.SecretFiles, filepath.Join(c.dataDir, runfile.Name))
	if run.Stellar.FriendbotURL != "" { // of a devnet
		c.source.Follow(run.Stellar.RPCURL, run.Stellar.NetworkPassphrase, time.Second)
	} else if err := c.source.Check(); err != nil {
		cfg.Faults = append(cfg.Faults, err)
	}
	c.configureLedgerChecks(cfg)
	cfg.Egress, err = c.egressOfRun(run)
	return err
}

// ofStopped checks the folder and the machine of a `lumenhook run` that isn't running.
func (c *Checkup) ofStopped(cfg *doctor.Config, why error) {
	cfg.Away = fmt.Errorf("%w; or set the flags of lumenhook serve (--config, --kafka-brokers)",
		why)
	cfg.Embedded = true
	secrets := filepath.Join(c.dataDir, "secrets")
	if _, err := os.Stat(secrets); !errors.Is(err, os.ErrNotExist) { // else never used
		cfg.SecretFiles = filesIn(secrets)
	}
	cfg.Egress = c.node.Config().Egress
}

// egressOfRun returns the policy of `lumenhook run`, which on a devnet allows this machine.
func (c *Checkup) egressOfRun(run runfile.File) (egress.Config, error) {
	cfg := c.node.Config().Egress
	ports, err := egress.ParsePorts(run.EgressPorts)
	authorities, readErr := keys.ReadAuthorities(run.CAFile)
	if err := errors.Join(err, readErr); err != nil {
		return cfg, fmt.Errorf("reading the service's egress settings: %w", err)
	}
	cfg.Policy.Ports = ports
	if cfg.RootCAs == nil {
		cfg.RootCAs = x509.NewCertPool()
	}
	cfg.RootCAs.AppendCertsFromPEM(authorities)
	if run.Stellar.FriendbotURL != "" {
		cfg.Policy.Allow = append(cfg.Policy.Allow, egress.LoopbackPrefixes()...)
	}
	return cfg, nil
}

func filesIn(dir string) (paths []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []string{dir}
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}
