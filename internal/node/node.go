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

// Config configures a node. The fields down to Say are required. The fields below are required by
// the roles in their comments.
type Config struct {
	Cluster  kafka.Cluster
	StateDir string // for the stores of directory and engine
	// Roles are the roles that the node needs to be ready.
	Roles   []Role
	Disk    *DiskGuard
	Metrics *Metrics
	Tracing *Tracing // nil: disabled
	Now     func() time.Time
	Logger  *slog.Logger
	// Say prints one line for the user.
	Say func(format string, args ...any)

	// Policy applies to all engines of a deployment. The mailer mentions it.
	Policy         domain.Policy
	AttemptTimeout time.Duration
	Passphrase     string // of the network: api, follower
	// Sealer encrypts and decrypts secrets; MasterKey is its text: api, engine.
	Sealer    *keys.Sealer
	RunDir    string // absolute path of the data folder of `lumenhook run`, otherwise empty
	MasterKey []byte
	// SigningKeys sign for endpoints that use Ed25519: api, engine.
	SigningKeys *keys.SigningRing
	Egress      egress.Config // api, engine

	API      APIConfig
	Engine   EngineConfig
	Follower FollowerConfig
	History  HistoryConfig // api, projector
	// Sender sends emails: mailer.
	Sender mailer.Sender
}

// APIConfig configures the API.
type APIConfig struct {
	Server  ServerConfig
	Wallets api.Wallets
	// Transactions is nil if the network cannot be queried for transactions.
	Transactions api.Transactions
	RateLimit    api.RateLimit
}

// EngineConfig holds the limits of an engine.
type EngineConfig struct {
	AttemptsInFlight    int
	AttemptsPerEndpoint int
	StandbyReplicas     int    // engines with a copy of each partition
	Rack                string // of this process; empty: unknown
	// Keep and KeepBytes limit the records that stay in topics when nothing needs them:
	// topology.RetentionConfig.
	Keep      time.Duration
	KeepBytes int64
	OnFact    func(domain.Fact) // may be nil
}

// FollowerConfig configures a follower.
type FollowerConfig struct {
	Live      follower.Source
	Past      follower.Source              // a separate reader, for backfills
	Probe     follower.Source              // a separate reader, to find out why Live returns nothing
	Standings func() domain.SourceStatuses // the state of the sources of Live
	Start     follower.Start
	Trusted   follower.Trusted
	// CloseInterval is how often the network closes a ledger, if that may be rare.
	CloseInterval time.Duration
	OnMatched     func(follower.LedgerSummary) // follower.Config.OnMatched; may be nil
}

// HistoryConfig describes where the history is and how it is written.
type HistoryConfig struct {
	DSN string // empty: no database, or none yet
	// OneProcess means that all readers that need new rows soon are in this process. Without
	// readers, blocks then wait longer.
	OneProcess bool
	// Keep is how long rows are kept, 0 for unlimited. nil leaves the retention unchanged.
	Keep *time.Duration
}

// Node runs the roles of one process.
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

	mu         sync.Mutex // protects cfg.History.DSN and ownHistory
	ownHistory bool       // the ClickHouse belongs to this service
}

// New returns a node that starts its roles on a stack, which stops them.
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

// part is embedded in all parts of a node. It has the node, and a stack for everything that the
// part starts itself.
type part struct {
	*Stack
	node *Node
}

func (n *Node) part() part {
	return part{&Stack{Restarted: n.cfg.Metrics.restarted, Logger: n.cfg.Logger}, n}
}

// Go starts a loop of the part. It counts restarts from 0, because alerts only see an increase of a
// series that already exists.
func (p part) Go(name string, run func(context.Context) error) {
	p.node.cfg.Metrics.restarts.WithLabelValues(name)
	p.Stack.Go(name, run)
}

// clusterOf returns the cluster with a part's own client id, so that quotas and brokers' logs
// distinguish the parts of a process.
func (p part) clusterOf(name string) kafka.Cluster {
	cluster := p.node.cfg.Cluster
	cluster.ClientID += "-" + name
	return cluster
}

// mayTakeOver returns a check that fails if the deployment's topics were closed after the process
// started, for example while it was paused. Closing them also fenced this process.
func mayTakeOver(cluster kafka.Cluster) func(context.Context) error {
	return func(ctx context.Context) error { return topology.CheckOpen(ctx, cluster) }
}

// serve serves on the listener. If that fails, it opens a new listener at the same address.
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

// Ready implements Service for parts that are ready once started.
func (p part) Ready(context.Context) error { return nil }

// Start starts roles and their dependencies, in the order of Roles.
func (n *Node) Start(ctx context.Context, roles ...Role) error {
	for _, role := range roles {
		if err := n.stack.Start(ctx, n.needs(role)...); err != nil {
			return err
		}
	}
	return nil
}

// needs returns the dependencies of a role, followed by the role.
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

var errNotStarted = errors.New("not started yet")

// Ready reports on the disk, on every started part, and on every required role that has not
// started.
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

// APIURL returns the URL of the API once it is served.
func (n *Node) APIURL() string { return n.api.url }

// ConsoleLink returns a URL that signs in to the console with a key, once, within ten minutes. It
// returns "" if no link can be created.
func (n *Node) ConsoleLink(apiKey string) string {
	path, err := n.api.console.SignInLink(apiKey)
	if err != nil {
		return ""
	}
	return n.api.url + path
}

// History returns the API's history.
func (n *Node) History() *History { return n.history }

// FollowerReady returns a channel that is closed once this node's follower is elected and knows
// where to continue. The role must be started.
func (n *Node) FollowerReady() <-chan struct{} { return n.follower.follower.Load().Ready() }

// UseOwnHistory sets a ClickHouse that belongs to this service, before the projector starts. Tables
// that lost rows are rebuilt automatically there, because no other program uses its disk and
// processors.
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
	RoleEngine    Role = "engine"    // decides, and sends the attempts
	RoleMailer    Role = "mailer"    // emails holders of disabled endpoints
	RoleFollower  Role = "follower"  // reads ledgers
	RoleAPI       Role = "api"
)

// Roles lists the roles in the order in which they start.
func Roles() []Role {
	return []Role{RoleProjector, RoleEngine, RoleMailer, RoleFollower, RoleAPI}
}

// ParseRoles parses role names. It requires at least one.
func ParseRoles(names []string) ([]Role, error) {
	var roles []Role
	for _, name := range names {
		role := Role(strings.TrimSpace(name))
		if !slices.Contains(Roles(), role) {
			return nil, fmt.Errorf("unknown role %q (known: %s)", name, RoleNames())
		}
		roles = append(roles, role)
	}
	if len(roles) == 0 {
		return nil, fmt.Errorf("set at least one role of %s", RoleNames())
	}
	slices.SortFunc(roles, func(a, b Role) int {
		return slices.Index(Roles(), a) - slices.Index(Roles(), b)
	})
	return slices.Compact(roles), nil
}

// RoleNames returns all role names, separated by commas.
func RoleNames() string {
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ",")
}
