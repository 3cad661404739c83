package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// Flags are the flags of `lumenhook serve`.
type Flags struct {
	own           config.Flags
	nodeName      string
	supervised    bool
	replicas      int
	rack          string
	dataDir       string
	masterKeyFile string
	// If empty, the file is next to the master key.
	signingKeysFile string
	kafka           config.Kafka
	partitions      int32
	accept          []string
	source          config.Ledgers
	node            config.Node

	roles []node.Role
}

// Register adds the flags to a flag set.
func (s *Flags) Register(f *pflag.FlagSet) {
	cli.RegisterConfig(f)
	s.own.Group(f, "", "",
		config.Value("roles", new([]string), nil, "roles of this process: some of "+node.RoleNames(),
			config.Into(&s.roles, node.ParseRoles)).Of(roleNames(node.Roles())...),
		config.Value("node-name", &s.nodeName, "", "name of this process in its consumer groups; "+
			"after a restart, its partitions wait 6 s for a process with this name; if empty, they move "+
			"immediately",
			checkNodeName),
		config.Value(supervisedFlag, &s.supervised, false, "run the service in a child process; if "+
			"the child dies, it's removed from its groups so that others can take over immediately; "+
			"requires --node-name"),
		config.Bounded("standby-replicas", &s.replicas, 0, "number of engines that keep an "+
			"up-to-date copy of each partition and take over immediately if its engine dies",
			0, maxReplicas),
		config.Value("rack", &s.rack, "", "rack or zone of this process; if possible, its partitions "+
			"have their copies in a different one"),
		config.Value("data-dir", &s.dataDir, ".lumenhook", "folder for this process's state; if it's "+
			"lost, the process restores it from the topics", checkFolder),
		config.Value("master-key-file", &s.masterKeyFile, "", "file that contains the master key; "+
			"use the same file for all processes; running processes pick up changes immediately"),
		config.Value("signing-keys-file", &s.signingKeysFile, "", "file that contains the Ed25519 "+
			"signing keys; use the same file for all processes; running processes pick up changes "+
			"immediately; default: "+
			keys.SigningFileName+" next to the master key"),
		config.Value("partitions", &s.partitions, 0,
			"required number of partitions for keyed topics; 0: any number", config.AtLeast[int32](0)),
		config.Value("accept-loss", &s.accept, nil, "cluster risks to accept, any of "+
			strings.Join(topology.Names(), ", "), topology.CheckNames).Of(topology.Names()...))
	s.kafka.Register(f)
	s.source.Register(f, "pubnet")
	s.source.RegisterMoves(f)
	s.node.Register(f, "info")
	cli.Brief(f, "config", "roles", "data-dir", "master-key-file", "kafka-brokers", "clickhouse-dsn",
		"network", "stellar-rpc-url", "api-listen", "metrics-listen")
}

// maxReplicas is more than the number of copies that any Kafka cluster keeps of the topics.
const maxReplicas = 8

// nodeNameForm matches the group.instance.ids that all brokers accept.
var nodeNameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

func checkNodeName(name string) error {
	if name != "" && !nodeNameForm.MatchString(name) {
		return errors.New("must be 1 to 128 letters, digits, dots, dashes or underscores")
	}
	return nil
}

func checkFolder(dir string) error {
	if dir == "" {
		return runfile.ErrNoFolder
	}
	return nil
}

// Check parses the values and returns all problems at once.
func (s *Flags) Check() error {
	faults := s.own.Faults()
	if s.supervised && s.nodeName == "" {
		faults = append(faults, fmt.Errorf(
			"--%s: needs --node-name, which identifies a dead process in its groups", supervisedFlag))
	}
	if len(s.kafka.Brokers) == 0 {
		faults = append(faults,
			errors.New("--kafka-brokers: name at least one broker, such as kafka:9092"))
	}
	_, err := s.cluster(nil)
	return cli.Faults(slices.Concat(append(faults, err), s.node.Check(), s.checkRoles()))
}

// checkRoles returns an error for each missing setting that the roles need.
func (s *Flags) checkRoles() (faults []error) {
	does := func(roles ...node.Role) bool {
		return slices.ContainsFunc(roles, func(r node.Role) bool { return slices.Contains(s.roles, r) })
	}
	if does(node.RoleAPI, node.RoleFollower) {
		faults = append(faults, s.source.Check())
	}
	if does(node.RoleAPI, node.RoleProjector) && s.node.ClickHouse.DSN == "" {
		faults = append(faults,
			errors.New("--clickhouse-dsn: required for the roles api and projector"))
	}
	if does(node.RoleMailer) && s.node.Mail.Addr == "" {
		faults = append(faults, errors.New("--smtp-addr: required for the role mailer"))
	}
	if does(node.RoleAPI, node.RoleEngine) {
		_, err := s.masterKey().Text()
		if err != nil {
			err = fmt.Errorf("--master-key-file: required for the roles api and engine: %w", err)
		}
		faults = append(faults, err)
	}
	return faults
}

// openKeys opens the master key and the signing keys for the roles api and engine.
func (s *Flags) openKeys(cfg *node.Config, logger *slog.Logger) (err error) {
	if cfg.Sealer, cfg.MasterKey, err = s.masterKey().OpenExisting(); err != nil {
		return err
	}
	path := cmp.Or(s.signingKeysFile, keys.SigningKeyPath(s.masterKey().Path()))
	if cfg.SigningKeys, err = keys.OpenSigning(path, cfg.Sealer, time.Now, logger); err != nil {
		return fmt.Errorf("--signing-keys-file: %w", err)
	}
	return nil
}

func (s *Flags) masterKey() keys.MasterKeyPlace {
	return keys.MasterKeyPlace{File: s.masterKeyFile, DataDir: s.dataDir}
}

func (s *Flags) cluster(logger *slog.Logger) (kafka.Cluster, error) {
	c, err := s.kafka.Cluster(cmp.Or(s.nodeName, "lumenhook"), logger)
	c.InstanceID = s.nodeName
	return c, err
}
