package standalone

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/api/console"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

const (
	// networkMax bounds the wait for the network before the API is started.
	networkMax = 5 * time.Second
	// readyMax bounds the wait for everything to be ready before run.json is written.
	readyMax = 10 * time.Second
)

// service is everything that is started: embedded parts, and a node that uses them.
type service struct {
	*node.Stack
	flags    *Flags
	terminal io.Writer
	out      *narrator
	dir      *runfile.Folder
	logins   runfile.Logins
	cluster  kafka.Cluster
	ca       *keys.CA
	sealer   *keys.Sealer
	keyText  []byte // of the master key
	signing  *keys.SigningRing
	ids      devnet.Identities
	disk     *node.DiskGuard
	node     *node.Node
	demo     *demo // nil with --no-demo

	consoleLink string // signs in, once

	mu        sync.Mutex // holds moved, published, and file once that is set
	moved     []string   // notices of default addresses that were taken
	published bool       // run.json exists, and is kept up to date
	file      runfile.File
}

// Run starts everything, reports that on out, and serves until ctx ends or a part fails.
// The flags must have been checked.
func Run(ctx context.Context, flags *Flags, out io.Writer) error {
	node.Tune()
	shown := newLineQueue(out)
	defer shown.Close()
	logger := slog.New(slog.NewTextHandler(os.Stderr,
		&slog.HandlerOptions{Level: flags.node.LogLevel}))
	told := &narrator{out: shown}
	start := func(ctx context.Context, stack *node.Stack) error {
		v := &service{Stack: stack, flags: flags, terminal: shown, out: told}
		return v.start(ctx)
	}
	return node.Run(ctx, logger, told.Say, start)
}

func (v *service) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		v.openData, v.startBroker, v.startDevnet, v.assemble, v.startHistory, v.startWork,
		v.bootstrap, v.startFollower, v.startAPI, v.startMetrics, v.startDemo, v.ready,
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (v *service) openData(context.Context) (err error) {
	if v.dir, err = runfile.Open(v.flags.dataDir); err != nil {
		return err
	}
	v.OnStop(func() { _ = v.dir.Close() })
	if err := v.dir.CheckNetwork(v.flags.otherNetwork()); err != nil {
		return err
	}
	v.disk = node.NewDiskGuard(v.dir.Path(), node.LeastFreeBytes, v.out.Say, v.Logger)
	if err := v.disk.Check(); err != nil {
		return fmt.Errorf("--data-dir %s: %w, or name a folder on another disk", v.dir.Path(), err)
	}
	v.Go("disk", v.disk.Run)
	if err := v.dir.Unpublish(); err != nil {
		return err
	}
	if err := v.dir.CheckSecrets(); err != nil {
		return err
	}
	return v.readSecrets()
}

// readSecrets reads the folder's secrets, or creates them.
func (v *service) readSecrets() (err error) {
	if v.sealer, v.keyText, err = v.dir.MasterKey().Open(); err != nil {
		return err
	}
	v.signing, err = keys.OpenSigning(keys.SigningBeside(v.dir.MasterKey().Path()), v.sealer, time.Now,
		v.Logger)
	if err != nil {
		return err
	}
	if v.logins, err = v.dir.Logins(); err != nil {
		return err
	}
	live := v.flags.source.Passphrase == network.PublicNetworkPassphrase
	if v.file.APIKey, err = v.dir.APIKey(live); err != nil {
		return err
	}
	hash := string(domain.APIKeyHash(v.file.APIKey))
	v.file.AccountID = domain.DeriveID(domain.AccountPrefix, "run", hash)
	v.ca, err = keys.LoadOrCreateCA(v.dir.Join("secrets"), v.dir.Join("ca.pem"), time.Now)
	v.file.CAFile = v.dir.Join("ca.pem")
	v.file.PID = os.Getpid()
	return err
}

// assemble makes the node on the embedded parts.
func (v *service) assemble(ctx context.Context) error {
	if err := v.startDemoReceiver(); err != nil {
		return err
	}
	cfg := v.flags.node.Config()
	if err := v.equip(&cfg); err != nil {
		return err
	}
	tracing, err := v.flags.node.StartTracing(ctx, v.Stack, "run")
	if err != nil {
		return err
	}
	v.file.EgressPorts = v.flags.node.Set.Egress.Policy.Ports.String()
	cfg.Cluster, cfg.StateDir, cfg.Disk = v.cluster, v.dir.Join("state"), v.disk
	cfg.Tracing, cfg.Logger, cfg.Say = tracing, v.Logger, v.out.Say
	cfg.Passphrase = v.file.Stellar.NetworkPassphrase
	cfg.Sealer, cfg.MasterKey, cfg.SigningKeys = v.sealer, v.keyText, v.signing
	v.reachDevnet(&cfg.Egress)
	cfg.API.Server.Listen = v.address("api-listen", v.flags.node.Set.API.Server.Listen)
	cfg.History.OneProcess = true
	cfg.Engine.OnFact, cfg.Follower.OnMatched = v.out.fact, v.out.ledger
	v.node = node.New(cfg, v.Stack)
	return nil
}

// equip gives a node the mail sender and the network client.
func (v *service) equip(cfg *node.Config) (err error) {
	if cfg.Sender, err = v.sender(); err != nil {
		return err
	}
	if cfg.API.Wallets, err = v.flags.source.Lookup(v.Logger); err != nil {
		return err
	}
	cfg.Follower.Start = v.flags.source.StartAt
	cfg.Follower.Trusted = v.flags.source.Trusted()
	if v.flags.ownNetwork() {
		cfg.Follower.CloseInterval = v.flags.ledgerInterval
	}
	v.flags.source.OnRefused = cfg.Metrics.LedgerRefused
	v.flags.source.OnSource, v.flags.source.OnLeft = cfg.Metrics.KnowSource, cfg.Metrics.SourceLeft
	both, err := v.flags.source.OpenBoth(v.Logger)
	cfg.Follower.Live, cfg.Follower.Past = both.Live, both.Past
	cfg.Follower.Probe = both.Probe
	cfg.Follower.Standings = both.Standings
	return err
}

// reachDevnet allows the guarded client to reach this machine if there is a development
// network, and to trust the run's own authority besides the system's.
func (v *service) reachDevnet(cfg *egress.Config) {
	if v.flags.ownNetwork() {
		cfg.Policy.Allow = append(cfg.Policy.Allow, egress.LoopbackPrefixes()...)
		v.ca.AddTo(cfg.RootCAs)
	}
}

// sender returns the mail sender: the configured server, or a folder if there is none.
func (v *service) sender() (mailer.Sender, error) {
	if v.flags.node.Mail.Addr != "" {
		return v.flags.node.Mail.Sender()
	}
	return mailer.NewFolder(v.dir.Join("mail"), "lumenhook@localhost", v.out.mail)
}

func (v *service) startWork(ctx context.Context) error {
	return v.node.Start(ctx, node.RoleEngine, node.RoleMailer)
}

// bootstrap creates the run's account with its key. It runs at every start and changes
// something only at the first.
func (v *service) bootstrap(ctx context.Context) error {
	id := v.file.AccountID
	hash := domain.APIKeyHash(v.file.APIKey)
	key := domain.Key{
		ID:          domain.DeriveID(domain.KeyPrefix, "run", string(hash)),
		Name:        "run",
		Hash:        hash,
		Permissions: domain.Permissions(),
	}
	return v.node.OpenAccount(ctx, domain.Command{
		ID:             domain.DeriveID(domain.CommandPrefix, "run", id),
		AccountID:      id,
		IssuedAtMillis: time.Now().UnixMilli(),
		Body:           domain.CreateAccount{AccountID: id, Email: "you@localhost", Key: key},
	})
}

func (v *service) startFollower(ctx context.Context) error {
	if err := v.node.Start(ctx, node.RoleFollower); err != nil {
		return err
	}
	// The network may not answer, and the API does not need it.
	ctx, cancel := context.WithTimeout(ctx, networkMax)
	defer cancel()
	v.awaitFollower(ctx)
	return nil
}

// awaitFollower waits until payments from now on will be seen, or ctx has ended, and
// reports which.
func (v *service) awaitFollower(ctx context.Context) bool {
	select {
	case <-v.node.FollowerReady():
		return true
	case <-ctx.Done():
		return false
	}
}

func (v *service) startAPI(ctx context.Context) error {
	err := v.node.Start(ctx, node.RoleAPI)
	v.file.APIURL = v.node.APIURL()
	return err
}

func (v *service) startMetrics(context.Context) error {
	listen := v.flags.node.MetricsListen
	if listen == "" {
		return nil
	}
	address, err := v.node.ServeOperations(v.address("metrics-listen", listen))
	v.file.MetricsURL = "http://" + address + "/metrics"
	return err
}

// ready waits, for a bounded time, until everything is ready; then it writes run.json and
// prints the same.
func (v *service) ready(ctx context.Context) error {
	inTime := v.awaitReady(ctx, readyMax)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := v.publish(); err != nil {
		return err
	}
	v.OnStop(v.unpublish)
	if inTime {
		v.sayReady()
	} else {
		v.out.Say("started, and says ready when it is")
		v.Go("readiness", v.readyLater)
	}
	v.consoleLink = v.node.ConsoleLink(v.file.APIKey)
	v.sayAddresses()
	return nil
}

// awaitReady reports whether /readyz answers 200 within a time; 0: without a limit but ctx.
func (v *service) awaitReady(ctx context.Context, most time.Duration) bool {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	return v.node.AwaitReady(ctx) && v.awaitFollower(ctx)
}

func (v *service) readyLater(ctx context.Context) error {
	if v.awaitReady(ctx, 0) {
		v.sayReady()
	}
	<-ctx.Done()
	return ctx.Err()
}

func (v *service) sayReady() {
	if v.node.History().Missing() != nil {
		v.out.Say("ready, but for the history")
		return
	}
	v.out.Say("ready")
}

func (v *service) sayAddresses() {
	v.out.Say("  API        %s   key %s", v.file.APIURL, v.file.APIKey)
	v.sayConsole()
	if v.file.MetricsURL != "" {
		v.out.Say("  metrics    %s", v.file.MetricsURL)
	}
	v.sayNetwork()
	v.out.Say("  Kafka      %s", v.file.KafkaBrokers[0])
	v.sayClickHouse()
	if v.file.Receiver != nil {
		v.out.Say("  receiver   %s", v.file.Receiver.URL)
	}
	v.out.Say("  all of it in %s", v.dir.Join(runfile.Name))
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, note := range v.moved {
		v.out.Say("  note: %s", note)
	}
}

// sayConsole says where the console is, with a link that signs in.
func (v *service) sayConsole() {
	if v.consoleLink == "" {
		v.out.Say("  console    %s%s   (sign in with the key)", v.file.APIURL, console.Path)
		return
	}
	v.out.Say("  console    %s   (signs in once, within 10 minutes)", v.consoleLink)
}

func (v *service) sayNetwork() {
	at := v.file.Stellar
	if v.flags.ownNetwork() {
		v.out.Say("  Stellar    %s   friendbot %s", at.RPCURL, at.FriendbotURL)
		return
	}
	v.out.Say("  Stellar    %s", at.NetworkPassphrase)
}
