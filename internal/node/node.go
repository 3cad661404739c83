package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/mailer"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// Config configures a node. The fields down to Say are required; those below are required by the
// roles that they name.
type Config struct {
	Cluster  kafka.Cluster
	StateDir string // holds the stores of directory and engine
	// Roles are those without which the node is not ready.
	Roles   []Role
	Disk    *DiskGuard
	Metrics *Metrics
	Tracing *Tracing // nil: none
	Now     func() time.Time
	Logger  *slog.Logger
	// Say prints one line for the user.
	Say func(format string, args ...any)

	// Policy is the policy of all engines of a deployment; the mailer mentions it.
	Policy         domain.Policy
	AttemptTimeout time.Duration
	Passphrase     string // of the network: api, follower
	// Sealer seals and opens secrets, MasterKey is its text: api, engine.
	Sealer    *keys.Sealer
	RunDir    string // absolute path of the data folder of a `lumenhook run`, else empty
	MasterKey []byte
	// SigningKeys sign for endpoints that ask for Ed25519: api, engine.
	SigningKeys *keys.SigningRing
	Egress      egress.Config // api, engine

	API      APIConfig
	Engine   EngineConfig
	Follower FollowerConfig
	History  HistoryConfig // api, projector
	// Sender sends mails: mailer.
	Sender mailer.Sender
}

// APIConfig configures the API.
type APIConfig struct {
	Server  ServerConfig
	Wallets api.Wallets
	// Transactions may be nil: the network cannot be asked for them.
	Transactions api.Transactions
	RateLimit    api.RateLimit
}

// EngineConfig holds the limits of an engine.
type EngineConfig struct {
	AttemptsInFlight    int
	AttemptsPerEndpoint int
	StandbyReplicas     int    // engines that have a copy of each partition
	Rack                string // of this process; empty: unknown
	// Keep and KeepBytes are how long, and how many bytes of, records that are no longer needed
	// stay in the topics: topology.RetentionConfig.
	Keep      time.Duration
	KeepBytes int64
	OnFact    func(domain.Fact) // may be nil
}

// FollowerConfig configures a follower.
type FollowerConfig struct {
	Live      follower.Source
	Past      follower.Source               // another one, for backfills
	Probe     follower.Source               // another one, asked why Live gives nothing
	Standings func() domain.SourceStandings // the state of the sources of Live
	Start     follower.Start
	Trusted   follower.Trusted
	// CloseInterval is how often the network closes a ledger, where that may be seldom.
	CloseInterval time.Duration
	OnMatched     func(follower.LedgerSummary) // follower.Config.OnMatched; may be nil
}

// HistoryConfig is where the history is, and how it is written.
type HistoryConfig struct {
	DSN string // empty: there is no database, or not yet
	// OneProcess means that every reader that needs new rows soon is in this process: without
	// readers, blocks wait longer.
	OneProcess bool
	// Keep is after how long rows are deleted, 0 for never; nil: it stays as it is.
	Keep *time.Duration
}

// Node is the roles of one process.
type Node struct {
	cfg     Config
	stack   *Stack
	history *History

	directory *directoryPart
	commands  *commandsPart
	receivers *receiversPart
	engine    *engineRole
	follower  *followerRole
	projector *projectorRole
	mailer    *mailerRole
	api       *apiRole

	mu         sync.Mutex // holds cfg.History.DSN and ownHistory
	ownHistory bool       // the ClickHouse belongs to this service
}

// New returns a node whose roles are started on a stack, which stops them.
func New(cfg Config, stack *Stack) *Node {
	cfg.Cluster.Hooks = append(cfg.Cluster.Hooks, cfg.Metrics.kafka)
	cfg.Cluster.Hooks = append(cfg.Cluster.Hooks,
		cfg.Tracing.KafkaHooks(cfg.Cluster.ClientID, cfg.Cluster.Prefix)...)
	n := &Node{cfg: cfg, stack: stack, history: &History{}}
	n.directory, n.commands = &directoryPart{part: n.part()}, &commandsPart{part: n.part()}
	n.receivers, n.engine = &receiversPart{part: n.part()}, &engineRole{part: n.part()}
	n.follower, n.projector = &followerRole{part: n.part()}, &projectorRole{part: n.part()}
	n.mailer, n.api = &mailerRole{part: n.part()}, &apiRole{part: n.part()}
	cfg.Metrics.registry.MustRegister(readyParts{n.Ready})
	return n
}

// part is shared by all parts of a node: the node, and a stack of the things that they have started
// themselves.
type part struct {
	*Stack
	node *Node
}

func (n *Node) part() part {
	return part{&Stack{Restarted: n.cfg.Metrics.restarted, Logger: n.cfg.Logger}, n}
}

// Go starts a loop of the part. Its restarts are counted from 0 on: an alert sees an increase only
// of a count that was there before.
func (p part) Go(name string, run func(context.Context) error) {
	p.node.cfg.Metrics.restarts.WithLabelValues(name)
	p.Stack.Go(name, run)
}

// clusterOf returns the cluster for one of the node's parts. Each has its own client id, so that a
// quota, or a broker's log, is for one part and not the whole process.
func (p part) clusterOf(name string) kafka.Cluster {
	cluster := p.node.cfg.Cluster
	cluster.ClientID += "-" + name
	return cluster
}

// mayTakeOver returns a check that fails if the deployment's topics were closed since the process
// started, for example while it was paused: closing them also fenced this process.
func mayTakeOver(cluster kafka.Cluster) func(context.Context) error {
	return func(ctx context.Context) error { return topology.CheckOpen(ctx, cluster) }
}

// serve answers on a listener, and on a new one of its address when that fails.
func (p part) serve(name string, server *Server, listener net.Listener) {
	address := listener.Addr()
	p.Go(name, func(ctx context.Context) (err error) {
		if listener == nil {
			if listener, err = net.Listen(address.Network(), address.String()); err != nil {
				return err
			}
		}
		defer func() { listener = nil }()
		return serve(ctx, server, listener)
	})
}

// Ready of a part that is ready once it is started.
func (p part) Ready(context.Context) error { return nil }

// Start starts roles, and their dependencies, in the order of Roles.
func (n *Node) Start(ctx context.Context, roles ...Role) error {
	for _, role := range roles {
		if err := n.stack.Start(ctx, n.needs(role)...); err != nil {
			return err
		}
	}
	return nil
}

// needs returns the dependencies of a role, and the role itself.
func (n *Node) needs(role Role) []Service {
	switch role {
	case RoleProjector:
		return []Service{n.projector}
	case RoleEngine:
		return []Service{n.receivers, n.engine}
	case RoleMailer:
		return []Service{n.directory, n.mailer}
	case RoleFollower:
		return []Service{n.directory, n.commands, n.follower}
	default:
		return []Service{n.directory, n.commands, n.receivers, n.api}
	}
}

var errNotStarted = errors.New("it is not started yet")

// Ready says of the disk, of every part that was started and of every role that is
// still to be, whether it works.
func (n *Node) Ready(ctx context.Context) []Report {
	disk := Report{Name: "disk", Err: n.cfg.Disk.Check()}
	reports := append([]Report{disk}, n.stack.Ready(ctx)...)
	for _, role := range n.cfg.Roles {
		there := func(r Report) bool { return r.Name == string(role) }
		if !slices.ContainsFunc(reports, there) {
			reports = append(reports, Report{Name: string(role), Err: errNotStarted})
		}
	}
	return reports
}

// APIURL is where the API is served, once it is.
func (n *Node) APIURL() string { return n.api.url }

// ConsoleLink is the address of a page that signs in to the console with a key, once, within ten
// minutes. It is empty if none can be made.
func (n *Node) ConsoleLink(apiKey string) string {
	path, err := n.api.console.SignInLink(apiKey)
	if err != nil {
		return ""
	}
	return n.api.url + path
}

// History is the history as the API asks for it.
func (n *Node) History() *History { return n.history }

// FollowerReady is closed once this node's follower was elected and knows where it
// reads on. The role must be started.
func (n *Node) FollowerReady() <-chan struct{} { return n.follower.follower.Load().Ready() }

// UseOwnHistory sets a ClickHouse that belongs to this service, before the projector is started.
// Tables that lost rows are rebuilt there automatically, because no other program needs its disk
// and processors.
func (n *Node) UseOwnHistory(dsn string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cfg.History.DSN, n.ownHistory = dsn, true
}

func (n *Node) historyDSN() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cfg.History.DSN
}

// Role is a task of a process in a deployment.
type Role string

// The roles.
const (
	RoleProjector Role = "projector" // writes the history
	RoleEngine    Role = "engine"    // decides, and makes the attempts
	RoleMailer    Role = "mailer"    // emails holders of disabled endpoints
	RoleFollower  Role = "follower"  // reads ledgers
	RoleAPI       Role = "api"
)

// Roles lists them in the order in which they are started.
func Roles() []Role {
	return []Role{RoleProjector, RoleEngine, RoleMailer, RoleFollower, RoleAPI}
}

// ParseRoles reads names of roles. At least one must be given.
func ParseRoles(names []string) ([]Role, error) {
	var roles []Role
	for _, name := range names {
		role := Role(strings.TrimSpace(name))
		if !slices.Contains(Roles(), role) {
			return nil, fmt.Errorf("%q is no role: the roles are %s", name, RoleNames())
		}
		roles = append(roles, role)
	}
	if len(roles) == 0 {
		return nil, fmt.Errorf("name at least one role of %s", RoleNames())
	}
	slices.SortFunc(roles, func(a, b Role) int {
		return slices.Index(Roles(), a) - slices.Index(Roles(), b)
	})
	return slices.Compact(roles), nil
}

// RoleNames is all roles as one text, as a person writes them.
func RoleNames() string {
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ",")
}
