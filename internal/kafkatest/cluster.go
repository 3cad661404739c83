package kafkatest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

const (
	startTimeout = 3 * time.Minute // the machine may be busy
	pollInterval = 100 * time.Millisecond
)

// Config configures a cluster.
type Config struct {
	Dir     string // must be empty or missing; the caller removes it
	Brokers int    // 1 or 3
	// Secure requires clients to log in over TLS, and an ACL for every operation.
	Secure bool
	// Users are accepted in addition to Admin, with SASL PLAIN and their [Password]. With OAUTHBEARER,
	// any user with a [Token] is accepted.
	Users []string
	// Tiered configures [Cluster.RemoteDir] as remote storage.
	Tiered bool
	// Properties are added to every broker's configuration.
	Properties map[string]string
}

// Cluster is a running cluster.
type Cluster struct {
	cfg      Config
	id       string
	jars     string
	tiered   string // directory of the remote storage jar; empty without remote storage
	nodes    []*Node
	security *security // nil if the cluster is not secure
}

// Start installs Kafka if necessary, starts the brokers, and waits until they have formed a
// cluster.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	jars, err := Install(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, id: "bHVtZW5ob29rLXRlc3Qtaw", jars: jars}
	if cfg.Tiered {
		if c.tiered, err = installTiered(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		if err := n.Start(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := c.AwaitBrokers(ctx, len(c.nodes)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) prepare() error {
	if err := os.MkdirAll(c.cfg.Dir, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(c.loggingFile(), []byte(logging), 0o600); err != nil {
		return err
	}
	if c.cfg.Secure {
		var err error
		if c.security, err = newSecurity(c.cfg.Dir, c.cfg.Users); err != nil {
			return err
		}
	}
	addrs, err := freeAddrs(3 * c.cfg.Brokers)
	if err != nil {
		return err
	}
	for i := range c.cfg.Brokers {
		c.nodes = append(c.nodes, &Node{
			id:             i + 1,
			dir:            filepath.Join(c.cfg.Dir, "broker-"+strconv.Itoa(i+1)),
			clientAddr:     addrs[3*i],
			controllerAddr: addrs[3*i+1],
			mutualAddr:     addrs[3*i+2],
			cluster:        c,
		})
	}
	failed := make([]error, len(c.nodes))
	var all sync.WaitGroup
	for i, n := range c.nodes {
		all.Go(func() { failed[i] = n.format() })
	}
	all.Wait()
	return errors.Join(failed...)
}

// freeAddrs returns free addresses. It keeps all ports bound until it has enough, so that they
// differ.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := subprocess.ListenFree("127.0.0.1")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func (c *Cluster) loggingFile() string { return filepath.Join(c.cfg.Dir, "log4j2.properties") }

// RemoteDir returns the directory that serves as remote storage for tiered topics.
func (c *Cluster) RemoteDir() string { return filepath.Join(c.cfg.Dir, "remote") }

// Node returns the broker with an id. Ids start at 1.
func (c *Cluster) Node(id int) *Node { return c.nodes[id-1] }

// Nodes returns all brokers.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Addrs returns the brokers' addresses.
func (c *Cluster) Addrs() (addrs []string) {
	for _, n := range c.nodes {
		addrs = append(addrs, n.clientAddr)
	}
	return addrs
}

// MutualAddrs returns the addresses at which a secure cluster identifies clients only by their
// certificates (User:CN=name).
func (c *Cluster) MutualAddrs() (addrs []string) {
	for _, n := range c.nodes {
		addrs = append(addrs, n.mutualAddr)
	}
	return addrs
}

// IssueClient writes a client certificate with the common name, and its key.
func (c *Cluster) IssueClient(name, certFile, keyFile string) error {
	return c.security.clients.Issue(name, certFile, keyFile)
}

// TLS returns the client configuration of a secure cluster, or nil if the cluster is not secure.
func (c *Cluster) TLS() *tls.Config {
	if c.security == nil {
		return nil
	}
	roots := x509.NewCertPool()
	c.security.ca.AddTo(roots)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// CAFile returns the path of a secure cluster's CA certificate.
func (c *Cluster) CAFile() string { return c.security.ca.CertFile() }

// AdminClient returns a client with all permissions.
func (c *Cluster) AdminClient() (*kadm.Client, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(client), nil
}

func (c *Cluster) client() (*kgo.Client, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(c.Addrs()...), kgo.DialTimeout(2 * time.Second)}
	if c.security != nil {
		auth := plain.Auth{User: Admin, Pass: Password(Admin)}
		opts = append(opts, kgo.DialTLSConfig(c.TLS()), kgo.SASL(auth.AsMechanism()))
	}
	return kgo.NewClient(opts...)
}

// AwaitBrokers waits until the cluster reports n live brokers.
func (c *Cluster) AwaitBrokers(ctx context.Context, n int) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		alive, err := countBrokers(ctx, client)
		if err == nil && alive == n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d brokers (%d are running): %w\n%s",
				n, alive, errors.Join(ctx.Err(), err), c.lastWords())
		case <-tick.C:
		}
	}
}

// AwaitInSync waits until all brokers are running and every replica is in sync, so that any one
// broker may stop.
func (c *Cluster) AwaitInSync(ctx context.Context) error {
	if err := c.AwaitBrokers(ctx, len(c.nodes)); err != nil {
		return err
	}
	admin, err := c.AdminClient()
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		topics, err := admin.ListTopicsWithInternal(ctx)
		if err == nil && inSync(topics) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for replicas to be in sync: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func inSync(topics kadm.TopicDetails) bool {
	for _, t := range topics {
		for _, p := range t.Partitions {
			if len(p.ISR) < len(p.Replicas) {
				return false
			}
		}
	}
	return true
}

// countBrokers sends a request, because kadm would answer from the client's cache.
func countBrokers(ctx context.Context, client *kgo.Client) (int, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	return len(resp.Brokers), nil
}

func (c *Cluster) lastWords() (words string) {
	const most = 2000
	for _, n := range c.nodes {
		text, err := os.ReadFile(n.LogFile())
		if err != nil {
			continue
		}
		words += fmt.Sprintf("broker %d: …%s\n", n.id, text[max(0, len(text)-most):])
	}
	return words
}

// Close kills all brokers, unless another process started them.
func (c *Cluster) Close() error {
	var failed error
	for _, n := range c.nodes {
		if n.remote != nil {
			continue
		}
		failed = errors.Join(failed, n.Kill())
	}
	return failed
}
