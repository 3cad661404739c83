package topology_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/directory"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/mailer"
	"github.com/lumenhook/lumenhook/streams/topology"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

const (
	adminUser  = "admin"
	userPrefix = "lumenhook-"
	// refusedWord is in every response of a broker that denies something.
	refusedWord = "AUTHORIZATION_FAILED"
	// patience limits how long a role may take to do its work or to report a missing right.
	patience = 3 * time.Minute
)

// guarded is a role's deployment on a broker that requires a login.
type guarded struct {
	t     *testing.T
	admin kafka.Cluster
	role  string
	runs  int
	net   *devnet.Network // of a follower
}

// as returns the settings with which a user reaches the deployment. Its log goes to l.
func (g *guarded) as(user string, l *slog.Logger) kafka.Cluster {
	c := g.admin
	c.SASL = kafka.SASL{Mechanism: kafka.SASLPlain, User: user, Password: passwordOf(user)}
	c.Logger = l
	return c
}

// work does a role's work, and returns when all of it is done.
type work func(ctx context.Context, g *guarded, c kafka.Cluster) error

// ofTheHistory lists the topics that the history is projected from.
var ofTheHistory = []string{
	schemas.TopicPayments, schemas.TopicEndpoints, schemas.TopicWatches, schemas.TopicJournal,
}

// workCheck reads what `ledger check` compares, and looks up where the journal begins.
func workCheck(ctx context.Context, g *guarded, c kafka.Cluster) error {
	if err := reads(schemas.TopicPayments, schemas.TopicWatches)(ctx, g, c); err != nil {
		return err
	}
	_, _, err := c.Extent(ctx, schemas.TopicJournal)
	return err
}

// works lists the roles' work. Where a role's own part needs more than Kafka, the work makes the
// part's requests.
var works = map[string]struct {
	work work
	seed []string // topics that need a record to be read
	rows bool     // the tables need rows, and the journal the corresponding facts
}{
	"engine":    {work: workEngine},
	"follower":  {work: workFollower, seed: []string{schemas.TopicMatches}, rows: true},
	"api":       {work: workAPI, seed: []string{schemas.TopicLedgers}, rows: true},
	"projector": {work: workProjector, seed: ofTheHistory},
	"mailer":    {work: workMailer, rows: true},
	"history":   {work: workHistory, seed: ofTheHistory},
	"check":     {work: workCheck, seed: ofTheHistory},
	"backup":    {work: workBackup, rows: true},
	"rewrap":    {work: workRewrap, rows: true},
	"operator":  {work: workCommands},
	"inspect":   {work: workInspect, seed: []string{schemas.TopicDeadLetters}},
	"topics":    {work: workTopics},
}

// Every role does its work with the rights in its row of the table. Without any single one of them,
// it must report the missing right instead of hanging.
func TestEachRoleWorksWithItsRightsAloneAndSaysWhichIsMissing(t *testing.T) {
	t.Parallel()
	var users []string
	for _, name := range topology.RoleNames() {
		users = append(users, userPrefix+name)
	}
	broker := newGuarded(t, users...)
	for _, role := range topology.RoleNames() {
		t.Run(role, func(t *testing.T) {
			g := newDeployment(t, broker, role)
			acls, err := topology.Access(g.admin, userPrefix, role)
			must(t, err)
			if err := g.try(); err == nil {
				t.Fatal("it works without any right")
			}
			must(t, topology.Grant(t.Context(), g.admin, acls))
			rights := single(acls)
			g.awaitRights(len(rights))
			for range 2 { // the second time, there is something to restore
				must(t, g.try())
			}
			must(t, g.removeDead())
			for _, one := range rights {
				if one.Resource == kafka.ResourceCluster && one.Operation == kafka.OpDescribe &&
					!tellsTime {
					continue
				}
				if strings.HasPrefix(one.Names[0], "__") && one.Operation == kafka.OpDescribeConfigs &&
					!hasInternalTopics {
					continue
				}
				must(t, g.admin.DeleteACLs(t.Context(), []kafka.ACL{one}))
				g.awaitRights(len(rights) - 1)
				if err := g.try(); err == nil || !strings.Contains(err.Error(), refusedWord) {
					t.Errorf("without %s: %v", one, err)
				}
				must(t, g.admin.CreateACLs(t.Context(), []kafka.ACL{one}))
				g.awaitRights(len(rights))
			}
		})
	}
}

// awaitRights waits until the broker knows n rights of the role. It learns of them some time after
// they were acknowledged.
func (g *guarded) awaitRights(n int) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	of := kadm.NewACLs().AnyResource().ResourcePatternType(kadm.ACLPatternAny).
		Operations(kadm.OpAny).Allow("User:" + userPrefix + g.role).AllowHosts()
	must(g.t, until(ctx, func() error {
		return g.admin.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
			described, err := admin.DescribeACLs(ctx, of)
			known := 0
			for _, d := range described {
				err = errors.Join(err, d.Err)
				known += len(d.Described)
			}
			if err == nil && known != n {
				err = fmt.Errorf("the broker knows of %d rights", known)
			}
			return err
		})
	}))
}

func single(acls []kafka.ACL) (all []kafka.ACL) {
	for _, a := range acls {
		for _, name := range a.Names {
			one := a
			one.Names = []string{name}
			all = append(all, one)
		}
	}
	return all
}

func newDeployment(t *testing.T, broker kafka.Cluster, role string) *guarded {
	t.Helper()
	g := &guarded{t: t, role: role, admin: broker}
	g.admin.Prefix, g.admin.ClientID = role+".", "test"
	g.admin = g.as(adminUser, slog.New(slog.DiscardHandler))
	must(t,
		g.admin.EnsureTopics(t.Context(),
			topology.RequiredTopics(topology.Shape{Partitions: 1, Replicas: 1})))
	producer, err := g.admin.NewProducer()
	must(t, err)
	defer producer.Close()
	for _, topic := range works[role].seed {
		must(t,
			producer.Append(t.Context(), kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}))
	}
	if role == "follower" {
		g.startNetwork()
	}
	if works[role].rows {
		must(t, workCommands(t.Context(), g, g.admin))
		must(t, useKey(t.Context(), g.admin))
	}
	return g
}

// try runs the role as its user. It returns the error that ended the role, or the first log line
// about a denied request.
func (g *guarded) try() error {
	g.runs++
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	heard := refusals{make(chan string, 1)}
	done := make(chan error, 1)
	go func() { done <- works[g.role].work(ctx, g, g.as(userPrefix+g.role, slog.New(heard))) }()
	select {
	case err := <-done:
		return err
	case said := <-heard.said:
		cancel()
		<-done
		return errors.New(said)
	}
}

func (g *guarded) removeDead() error {
	c := g.as(userPrefix+g.role, slog.New(slog.DiscardHandler))
	c.InstanceID = "dead"
	_, err := c.RemoveMember(g.t.Context(), topology.Groups(g.role)...)
	return err
}

// refusals is a log handler that keeps only denied requests.
type refusals struct{ said chan string }

func (r refusals) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (r refusals) WithAttrs([]slog.Attr) slog.Handler           { return r }
func (r refusals) WithGroup(string) slog.Handler                { return r }

func (r refusals) Handle(_ context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	if strings.Contains(text, refusedWord) {
		select {
		case r.said <- text:
		default:
		}
	}
	return nil
}

// check makes the requests that every role makes at its start.
func check(ctx context.Context, c kafka.Cluster) error {
	faults, err := topology.Check(ctx, c, topology.CheckOptions{Accept: ofOneReplica, Now: time.Now})
	return errors.Join(err, topology.Refusal(faults))
}

func background(
	ctx context.Context, run func(context.Context) error,
) (failed <-chan error, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ended <- run(ctx)
	}()
	return ended, func() { cancel(); <-stopped }
}

// until retries so until it succeeds or ctx ends.
func until(ctx context.Context, so func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := so()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func newEngine(c kafka.Cluster, stateDir string) *engine.Engine {
	return engine.New(engine.Config{
		Cluster:    c,
		StateDir:   stateDir,
		Policy:     domain.Policy{Schedule: domain.DefaultSchedule()},
		Dispatcher: gone{},
		Unseal: func(sealed []byte, _ string) (domain.Secret, error) {
			return domain.Secret(sealed), nil
		},
		AttemptsInFlight:    1,
		AttemptsPerEndpoint: 1,
		DrainTimeout:        time.Second,
		SnapshotEvery:       1,
		Retained:            topology.Retained(),
		RetainEvery:         10 * time.Millisecond,
		Now:                 time.Now,
		Logger:              c.Logger,
	})
}

// gone stands for receivers that answer 410.
type gone struct{}

func (gone) Dispatch(_ domain.Attempt, done func(domain.AttemptResult)) {
	go done(domain.AttemptResult{StatusCode: 410})
}

func (gone) Disconnect(string) {}

// workEngine has an engine decide on an account, an endpoint and a watch. The engine also orders
// the mail about an endpoint that a match disables and sends an unreadable record of each input to
// dead letters. It writes a snapshot of its state, which the next engine loads.
func workEngine(ctx context.Context, g *guarded, c kafka.Cluster) error {
	if err := check(ctx, c); err != nil {
		return err
	}
	reader := kafka.Offsets{schemas.TopicJournal: {0: 0}} // the engine reads this group's position
	if err := g.admin.Hold(ctx, "projector", reader); err != nil {
		return err
	}
	e := newEngine(c, g.t.TempDir())
	_, end := background(ctx, e.Run)
	defer end()
	before, err := g.end(ctx, schemas.TopicDeadLetters)
	if err != nil {
		return err
	}
	producer, err := g.admin.NewProducer()
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, topic := range []string{schemas.TopicCommands, schemas.TopicMatches} {
		err := producer.Append(ctx, kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")})
		if err != nil {
			return err
		}
	}
	if err := submitAll(ctx, g, g.admin); err != nil {
		return err
	}
	mails, err := g.end(ctx, schemas.TopicMails)
	if err != nil {
		return err
	}
	snapshots, err := g.end(ctx, schemas.TopicSnapshots)
	if err != nil {
		return err
	}
	if err := producer.Append(ctx, g.match()); err != nil {
		return err
	}
	return until(ctx, func() error {
		after, err := g.end(ctx, schemas.TopicDeadLetters)
		if err == nil && after < before+2 {
			err = fmt.Errorf("%d dead letters", after-before)
		}
		ordered, failed := g.end(ctx, schemas.TopicMails)
		if failed == nil && ordered == mails {
			failed = errors.New("no mail is ordered")
		}
		written, unknown := g.end(ctx, schemas.TopicSnapshots)
		if unknown == nil && written == snapshots {
			unknown = errors.New("no snapshot is written")
		}
		if failed == nil && len(e.Retained()) == 0 {
			failed = errors.New("nothing was deleted")
		}
		return errors.Join(err, failed, unknown)
	})
}

func (g *guarded) match() kafka.Record {
	event := fmt.Sprintf("evt_%d", g.runs)
	m := schemas.EncodePaymentMatched(
		domain.Match{
			EventID: event,
			Type:    domain.PaymentReceived,
			Watch: domain.Watch{
				ID:         fmt.Sprintf("wat_%d", g.runs),
				AccountID:  fmt.Sprintf("acc_%d", g.runs),
				EndpointID: fmt.Sprintf("ep_%d", g.runs),
			},
		},
		domain.Event{ID: event, Type: domain.PaymentReceived, Body: []byte("{}")})
	return kafka.NewRecord(schemas.TopicMatches, fmt.Sprintf("ep_%d", g.runs), m.Value,
		m.EachHeader)
}

func (g *guarded) end(ctx context.Context, topic string) (int64, error) {
	ends, err := g.admin.NewEnds()
	if err != nil {
		return 0, err
	}
	defer ends.Close()
	of, err := ends.Of(ctx, topic)
	return of[0], err
}

// submitAll submits commands that together write to every table.
func submitAll(ctx context.Context, g *guarded, c kafka.Cluster) error {
	client, err := commands.Open(ctx, commands.Config{Cluster: c, Wait: patience, Logger: c.Logger})
	if err != nil {
		return err
	}
	_, end := background(ctx, client.Run)
	defer end()
	defer client.Close()
	account, endpoint := fmt.Sprintf("acc_%d", g.runs), fmt.Sprintf("ep_%d", g.runs)
	for i, body := range []domain.CommandBody{
		domain.CreateAccount{
			AccountID: account,
			Email:     "a@b.example",
			Key:       domain.Key{ID: fmt.Sprintf("key_%d", g.runs), Hash: []byte{1}},
		},
		domain.CreateEndpoint{
			EndpointID:       endpoint,
			AccountID:        account,
			EndpointSettings: domain.EndpointSettings{URL: "https://shop.example/hook"},
			SealedSecret:     []byte("s"),
		},
		domain.CreateWatch{Watch: domain.Watch{
			ID:            fmt.Sprintf("wat_%d", g.runs),
			AccountID:     account,
			EndpointID:    endpoint,
			WalletAddress: "GTO",
			EventTypes:    []domain.EventType{domain.PaymentReceived},
			Rules: domain.Rules{
				Assets: []domain.Asset{{Code: "XLM"}},
				Amount: domain.AmountRule{Kind: domain.AmountAny},
				Memo:   domain.MemoRule{Kind: domain.MemoAny},
			},
		}},
	} {
		result, err := client.Submit(ctx,
			domain.Command{
				ID:        fmt.Sprintf("cmd_%d_%d", g.runs, i),
				AccountID: account,
				BodyHash:  []byte("h"),
				Body:      body,
			})
		if err == nil && result.Answer.Rejection != nil {
			err = errors.New(result.Answer.Rejection.Detail)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", body.CommandType(), err)
		}
	}
	return nil
}

// workCommands submits commands to an engine that runs as admin.
func workCommands(ctx context.Context, g *guarded, c kafka.Cluster) error {
	_, end := background(ctx, newEngine(g.admin, g.t.TempDir()).Run)
	defer end()
	return submitAll(ctx, g, c)
}

// withDirectory calls then with a filled directory.
func withDirectory(
	ctx context.Context, g *guarded, c kafka.Cluster, then func(*directory.Directory) error,
) error {
	d, err := directory.Open(ctx,
		directory.Config{Cluster: c, Dir: g.t.TempDir(), Now: time.Now, Logger: c.Logger})
	if err != nil {
		return err
	}
	defer d.Close()
	_, end := background(ctx, d.Run)
	defer end()
	if _, err := d.CatchUp(ctx); err != nil {
		return err
	}
	return then(d)
}

// workAPI fills a directory, submits commands, records a key use, and reads the ends that the
// history is compared with.
func workAPI(ctx context.Context, g *guarded, c kafka.Cluster) error {
	if err := check(ctx, c); err != nil {
		return err
	}
	return withDirectory(ctx, g, c, func(*directory.Directory) error {
		if err := useKey(ctx, c); err != nil {
			return err
		}
		ends, err := c.NewEnds()
		if err != nil {
			return err
		}
		defer ends.Close()
		for _, topic := range []string{schemas.TopicJournal, schemas.TopicPayments} {
			if _, err := ends.Of(ctx, topic); err != nil {
				return err
			}
		}
		return errors.Join(reads(schemas.TopicLedgers)(ctx, g, c), workCommands(ctx, g, c))
	})
}

func useKey(ctx context.Context, c kafka.Cluster) error {
	producer, err := c.NewProducer()
	if err != nil {
		return err
	}
	defer producer.Close()
	m := schemas.EncodeKeyUse(1)
	return producer.Append(ctx, kafka.NewRecord(schemas.TopicKeyUses, "key_1", m.Value,
		m.EachHeader))
}

// workMailer has a mailer join its group, send an unreadable order to dead letters, and answer an
// order whose account does not exist.
func workMailer(ctx context.Context, g *guarded, c kafka.Cluster) error {
	if err := check(ctx, c); err != nil {
		return err
	}
	return withDirectory(ctx, g, c, func(d *directory.Directory) error {
		m := mailer.New(mailer.Config{Cluster: c, Directory: d, Now: time.Now, Logger: c.Logger})
		failed, end := background(ctx, m.Run)
		defer end()
		return carriedOut(ctx, g, func() error {
			select {
			case err := <-failed:
				return err
			default:
				return m.Check()
			}
		})
	})
}

// carriedOut appends an unreadable order and a readable one. It waits until the first is a dead
// letter and the second is answered.
func carriedOut(ctx context.Context, g *guarded, works func() error) error {
	before, err := mailsEnds(ctx, g)
	if err != nil {
		return err
	}
	producer, err := g.admin.NewProducer()
	if err != nil {
		return err
	}
	defer producer.Close()
	order := schemas.EncodeMailOrder(domain.MailOrder{
		EndpointID:  "ep_1",
		AccountID:   "acc_nobody",
		Number:      1,
		UntilMillis: math.MaxInt64,
	})
	err = producer.Append(ctx, kafka.Record{
		Topic: schemas.TopicMails,
		Key:   []byte("ep_1"),
		Value: []byte("v"),
	}, kafka.NewRecord(schemas.TopicMails, "ep_1", order.Value, order.EachHeader))
	if err != nil {
		return err
	}
	return until(ctx, func() error {
		after, err := mailsEnds(ctx, g)
		if err == nil && (after[0] == before[0] || after[1] == before[1]) {
			err = fmt.Errorf("%v dead letters and answers after %v", after, before)
		}
		return errors.Join(works(), err)
	})
}

func mailsEnds(ctx context.Context, g *guarded) (ends [2]int64, err error) {
	for i, topic := range []string{schemas.TopicDeadLetters, schemas.TopicCommands} {
		end, failed := g.end(ctx, topic)
		ends[i], err = end, errors.Join(err, failed)
	}
	return ends, err
}

// workFollower has a follower read a ledger and write its cursor. It also writes the records that
// only rare ledgers cause.
func workFollower(ctx context.Context, g *guarded, c kafka.Cluster) error {
	if err := check(ctx, c); err != nil {
		return err
	}
	server, err := rpc.New(rpc.Config{
		URL:          g.net.RPCURL(),
		Passphrase:   g.net.Passphrase(),
		PollInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	reader, err := source.NewReader(server, g.net.Passphrase())
	if err != nil {
		return err
	}
	return withDirectory(ctx, g, c, func(d *directory.Directory) error {
		if err := follow(ctx, c, follower.Config{
			Cluster:    c,
			Source:     reader,
			Watches:    watches{d},
			OpenParts:  d,
			Passphrase: g.net.Passphrase(),
			Now:        time.Now,
			Logger:     c.Logger,
		}); err != nil {
			return err
		}
		if err := appendAs(ctx, c, "follower", schemas.TopicPayments, schemas.TopicMatches,
			schemas.TopicQuarantine); err != nil {
			return err
		}
		if err := appendAs(ctx, c, "follower.backfill", schemas.TopicPayments,
			schemas.TopicMatches); err != nil {
			return err
		}
		return errors.Join(reads(schemas.TopicMatches, schemas.TopicLedgers)(ctx, g, c),
			workCommands(ctx, g, c))
	})
}

func appendAs(ctx context.Context, c kafka.Cluster, id string, topics ...string) error {
	fenced, err := c.NewFencedProducer(ctx, id)
	if err != nil {
		return err
	}
	defer fenced.Close()
	for _, topic := range topics {
		err := fenced.Append(ctx, kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")})
		if err != nil {
			return err
		}
	}
	return nil
}

type watches struct{ *directory.Directory }

func (w watches) ByWallet(wallet string) (all []domain.Watch, err error) {
	err = w.EachMatchingWatch(wallet, func(one domain.Watch) error {
		all = append(all, one)
		return nil
	})
	return all, err
}

func (g *guarded) startNetwork() {
	ids, err := devnet.NewIdentities()
	must(g.t, err)
	g.net, err = devnet.Open(devnet.Config{
		Dir:           g.t.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: 50 * time.Millisecond,
	})
	must(g.t, err)
	_, stop := background(context.Background(), g.net.Run)
	g.t.Cleanup(func() {
		stop()
		must(g.t, g.net.Close())
	})
}

func follow(ctx context.Context, c kafka.Cluster, cfg follower.Config) error {
	read := make(chan struct{}, 1)
	cfg.OnLedger = func(follower.LedgerSummary) {
		select {
		case read <- struct{}{}:
		default:
		}
	}
	failed, end := background(ctx, follower.New(cfg).Run)
	defer end()
	select {
	case <-read:
		return nil
	case err := <-failed:
		return err
	}
}

// workProjector makes a projector's requests, because the projector itself needs a database.
func workProjector(ctx context.Context, g *guarded, c kafka.Cluster) error {
	if err := check(ctx, c); err != nil {
		return err
	}
	ours := make(chan struct{}, 1)
	m, err := c.Join(kafka.MembershipConfig{
		Group:    "projector",
		Topic:    schemas.TopicJournal,
		Now:      time.Now,
		Assigned: func([]int32) { ours <- struct{}{} },
		Revoked:  func([]int32) {},
		Lost:     func([]int32) {},
	})
	if err != nil {
		return err
	}
	defer func() { _ = m.Leave(context.WithoutCancel(ctx)) }()
	select {
	case <-ours:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(kafka.Offsets)
	for _, topic := range ofTheHistory {
		done[topic] = map[int32]int64{0: 0}
	}
	return errors.Join(m.Commit(ctx, done), reads(ofTheHistory...)(ctx, g, c))
}

// workHistory holds the records that it reads, as rebuild and verify-projection do.
func workHistory(ctx context.Context, g *guarded, c kafka.Cluster) error {
	holder := writer.HoldersPrefix + "lumenhook_verify"
	held := kafka.Offsets{schemas.TopicJournal: {0: 0}}
	if err := reads(ofTheHistory...)(ctx, g, c); err != nil {
		return err
	}
	return errors.Join(c.Hold(ctx, holder, held), c.Release(ctx, holder))
}

func workRewrap(ctx context.Context, g *guarded, c kafka.Cluster) error {
	err := c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.FetchOffsets(ctx, c.Prefix+"engine")
		return err
	})
	return errors.Join(err, reads(schemas.TopicEndpoints, schemas.TopicCommands)(ctx, g, c),
		workCommands(ctx, g, c))
}

func workInspect(ctx context.Context, g *guarded, c kafka.Cluster) error {
	return errors.Join(check(ctx, c), reads(schemas.TopicDeadLetters)(ctx, g, c),
		asksToTier(ctx, c))
}

// asksToTier checks whether topics can be tiered, which the brokers of these tests do not support.
func asksToTier(ctx context.Context, c kafka.Cluster) error {
	_, err := topology.Plan(ctx, c, topology.Shape{Partitions: 1, Replicas: 1, LocalMillis: 1})
	if err != nil && strings.Contains(err.Error(), "no topic can be tiered") {
		return nil
	}
	return cmp.Or(err, errors.New("brokers without a remote storage are to tier topics"))
}

// workTopics creates a missing topic and corrects a setting.
func workTopics(ctx context.Context, g *guarded, c kafka.Cluster) error {
	err := g.admin.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.DeleteTopic(ctx, c.Prefix+schemas.TopicQuarantine)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	err = until(ctx, func() error {
		have, err := g.admin.DescribeTopics(ctx, schemas.TopicQuarantine)
		if err == nil && len(have) > 0 {
			err = errors.New("the topic is still there")
		}
		return err
	})
	if err != nil {
		return err
	}
	wrong := map[string]string{"retention.ms": "60000"}
	if err := g.admin.AlterTopic(ctx, schemas.TopicJournal, wrong); err != nil {
		return err
	}
	if _, err := topology.Create(ctx, c, topology.Shape{Partitions: 1, Replicas: 1}); err != nil {
		return err
	}
	return errors.Join(check(ctx, c), asksToTier(ctx, c))
}

func reads(topics ...string) work {
	return func(ctx context.Context, _ *guarded, c kafka.Cluster) error {
		ends, err := c.NewEnds()
		if err != nil {
			return err
		}
		defer ends.Close()
		for _, topic := range topics {
			from, err := ends.Starts(ctx, topic)
			if err != nil {
				return err
			}
			to, err := ends.Of(ctx, topic)
			if err != nil {
				return err
			}
			r, err := c.NewReader(kafka.ReaderConfig{
				From:        kafka.Offsets{topic: from},
				SkipExpired: true,
			})
			if err != nil {
				return err
			}
			err = r.ReadTo(ctx, topic, to, 100, func(kafka.Record) error { return nil })
			r.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func workBackup(ctx context.Context, g *guarded, c kafka.Cluster) error {
	_, err := transfer.WriteBackup(ctx, transfer.SourceConfig{
		Cluster: c,
		Scratch: g.t.TempDir(),
		Now:     time.Now,
		Logger:  c.Logger,
	}, filepath.Join(g.t.TempDir(), "backup"), transfer.Telling{
		Step:     func(string) {},
		Progress: func(int64, int64) {},
	})
	return err
}

// The check at a role's start also covers work that the role does much later, such as writing a
// snapshot.
func TestATopicThatMayNotBeWrittenIsAFault(t *testing.T) {
	g := newDeployment(t, newGuarded(t, userPrefix+"engine"), "engine")
	acls, err := topology.Access(g.admin, userPrefix, g.role)
	must(t, err)
	rights := single(acls)
	must(t, topology.Grant(t.Context(), g.admin, rights))
	g.awaitRights(len(rights))
	c := g.as(userPrefix+g.role, g.admin.Logger)
	faults := func() []topology.Fault {
		t.Helper()
		list, err := topology.Check(t.Context(), c, topology.CheckOptions{
			Roles:  []string{g.role},
			Accept: ofOneReplica,
			Now:    time.Now,
		})
		must(t, err)
		return list
	}
	if list := faults(); len(list) > 0 {
		t.Errorf("with all rights: %v", list)
	}
	for _, one := range rights {
		if one.Operation != kafka.OpWrite || one.Names[0] != "engine."+schemas.TopicSnapshots {
			continue
		}
		must(t, g.admin.DeleteACLs(t.Context(), []kafka.ACL{one}))
		g.awaitRights(len(rights) - 1)
	}
	list := faults()
	if len(list) != 1 || list[0].Name != topology.Rights ||
		!strings.Contains(list[0].What, "may not write topic engine.snapshots (") {
		t.Errorf("without the right to write snapshots: %v", list)
	}
}
