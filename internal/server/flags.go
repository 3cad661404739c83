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
	"github.com/lumenhook/lumenhook/internal/kafkaflags"
	"github.com/lumenhook/lumenhook/internal/ledgerflags"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/nodeflags"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/sealing"
	"github.com/lumenhook/lumenhook/internal/signing"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// Flags are the flags of `lumenhook serve`, checked.
type Flags struct {
	roleNames     []string
	nodeName      string
	supervised    bool
	replicas      int
	rack          string
	dataDir       string
	masterKeyFile string
	// signingKeysFile is empty for the one beside the master key
	signingKeysFile string
	kafka           kafkaflags.Flags
	partitions      int32
	accept          []string
	source          ledgerflags.Flags
	node            nodeflags.Flags

	roles []node.Role
}

// Register adds the flags.
func (s *Flags) Register(f *pflag.FlagSet) {
	cli.RegisterConfig(f)
	f.StringSliceVar(&s.roleNames, "roles", nil, "what this process does, of "+node.RoleNames())
	f.StringVar(&s.nodeName, "node-name", "", "name of this process in its groups, which it keeps "+
		"when it is restarted: its partitions wait for it, for 6 s; empty: they move at once")
	f.BoolVar(&s.supervised, supervisedFlag, false, "serve in a child process and, when that dies, "+
		"remove it from its groups at once, so that others take over before its 6 s are over; "+
		"needs --node-name")
	f.IntVar(&s.replicas, "standby-replicas", 0, "engines that keep a copy of each partition beside "+
		"its own, up to date, and take over at once when that dies")
	f.StringVar(&s.rack, "rack", "", "rack or zone of this process: copies of its partitions are "+
		"kept in another, if there is one")
	f.StringVar(&s.dataDir, "data-dir", ".lumenhook", "folder of this process' state, which may "+
		"be lost: the topics bring it back")
	f.StringVar(&s.masterKeyFile, "master-key-file", "", "the master key, of which all processes "+
		"have the same; a changed file is followed")
	f.StringVar(&s.signingKeysFile, "signing-keys-file", "", "keys of signatures by Ed25519, of "+
		"which all processes have the same; a changed file is followed; default: "+signing.FileName+
		" beside the master key")
	s.kafka.Register(f)
	f.Int32Var(&s.partitions, "partitions", 0,
		"partitions that keyed topics must have; 0: as many as they have")
	f.StringSliceVar(&s.accept, "accept-loss", nil,
		"faults of the cluster to put up with, of "+strings.Join(topology.Names(), ", "))
	s.source.Register(f, "pubnet")
	s.source.RegisterMoves(f)
	s.node.Register(f, "info")
}

// maxReplicas is more copies than any cluster of brokers keeps of the topics.
const maxReplicas = 8

// nodeNameForm is what any broker accepts as a group.instance.id.
var nodeNameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// Check parses the values and returns every fault at once.
func (s *Flags) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	var err error
	if s.roles, err = node.ParseRoles(s.roleNames); err != nil {
		fault("--roles: %w", err)
	}
	if s.nodeName != "" && !nodeNameForm.MatchString(s.nodeName) {
		fault("--node-name %q: must be 1 to 128 letters, digits, dots, dashes or underscores", s.nodeName)
	}
	if s.supervised && s.nodeName == "" {
		fault("--%s: needs --node-name, by which a group knows the process that died", supervisedFlag)
	}
	if s.replicas < 0 || s.replicas > maxReplicas {
		fault("--standby-replicas %d: must be from 0 to %d", s.replicas, maxReplicas)
	}
	if s.dataDir == "" {
		fault("--data-dir %q: %w", s.dataDir, runfile.ErrNoFolder)
	}
	if len(s.kafka.Brokers) == 0 {
		fault("--kafka-brokers: name at least one broker, such as kafka:9092")
	}
	if _, err := s.cluster(nil); err != nil {
		faults = append(faults, err)
	}
	if s.partitions < 0 {
		fault("--partitions %d: must be 0 or more", s.partitions)
	}
	if err := topology.CheckNames(s.accept); err != nil {
		fault("--accept-loss: %w", err)
	}
	return cli.Faults(slices.Concat(faults, s.node.Check(), s.checkRoles()))
}

// checkRoles returns what the roles of this process need and do not have.
func (s *Flags) checkRoles() (faults []error) {
	does := func(roles ...node.Role) bool {
		return slices.ContainsFunc(roles, func(r node.Role) bool { return slices.Contains(s.roles, r) })
	}
	if does(node.RoleAPI, node.RoleFollower) {
		faults = append(faults, s.source.Check())
	}
	if does(node.RoleAPI, node.RoleProjector) && s.node.ClickHouse.DSN == "" {
		faults = append(faults,
			errors.New("--clickhouse-dsn: must be given for the roles api and projector"))
	}
	if does(node.RoleMailer) && !s.node.HasMailServer() {
		faults = append(faults, errors.New("--smtp-addr: must be given for the role mailer"))
	}
	if does(node.RoleAPI, node.RoleEngine) {
		_, err := s.masterKey().Text()
		if err != nil {
			err = fmt.Errorf("--master-key-file: the roles api and engine need it: %w", err)
		}
		faults = append(faults, err)
	}
	return faults
}

// openKeys opens the master key and the signing keys of the roles api and engine.
func (s *Flags) openKeys(cfg *node.Config, logger *slog.Logger) (err error) {
	if cfg.Sealer, cfg.MasterKey, err = s.masterKey().OpenExisting(); err != nil {
		return err
	}
	path := cmp.Or(s.signingKeysFile, signing.Beside(s.masterKey().Path()))
	if cfg.SigningKeys, err = signing.Open(path, cfg.Sealer, time.Now, logger); err != nil {
		return fmt.Errorf("--signing-keys-file: %w", err)
	}
	return nil
}

func (s *Flags) masterKey() sealing.Place {
	return sealing.Place{File: s.masterKeyFile, DataDir: s.dataDir}
}

// cluster returns the connection settings of Kafka.
func (s *Flags) cluster(logger *slog.Logger) (streams.Cluster, error) {
	c, err := s.kafka.Cluster(cmp.Or(s.nodeName, "lumenhook"), logger)
	c.InstanceID = s.nodeName
	return c, err
}
