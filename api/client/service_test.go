package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/txnbuild"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/standalone"
)

// The examples use a service with its broker, its history and a devnet. TestMain runs it in this
// process, like `lumenhook run`.
var (
	baseURL string
	apiKey  string
	dataDir string
)

func TestMain(m *testing.M) {
	clickhouse.MaybeChild()
	code, err := withService(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func withService(run func() int) (code int, err error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err := clickhouse.Ensure(ctx, clickhouse.Options{Progress: os.Stderr}); err != nil {
		return 0, err
	}
	if dataDir, err = os.MkdirTemp("", "lumenhook"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dataDir)) }()
	flags, err := serviceFlags()
	if err != nil {
		return 0, err
	}
	said, ended := &said{ready: make(chan struct{})}, make(chan error, 1)
	go func() { ended <- standalone.Run(ctx, flags, said) }()
	select {
	case err := <-ended:
		return 0, err
	case <-said.ready:
	}
	file, err := runfile.Read(dataDir)
	if err != nil {
		return 0, err
	}
	baseURL, apiKey = file.APIURL, file.APIKey
	log.SetOutput(os.Stderr) // the service redirected it, but tests must show why they fail
	code = run()
	stop()
	return code, <-ended
}

// serviceFlags returns the flags of `lumenhook run` with free ports.
func serviceFlags() (*standalone.Flags, error) {
	args := []string{
		"--data-dir", dataDir, "--no-demo", "--balance-moves", "--log-format", "text",
		"--ledger-interval", "100ms", "--egress-ports", "1024-65535",
	}
	parts := []string{"api", "kafka", "stellar", "metrics", "clickhouse-native", "clickhouse-http"}
	for _, part := range parts {
		args = append(args, "--"+part+"-listen", "127.0.0.1:0")
	}
	flags, set := &standalone.Flags{}, pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.Register(set)
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	return flags, errors.Join(flags.Check()...)
}

// said gets the service's output. It closes ready once the service has printed that it is ready.
type said struct {
	text  bytes.Buffer
	once  sync.Once
	ready chan struct{}
}

func (s *said) Write(p []byte) (int, error) {
	s.text.Write(p)
	if bytes.Contains(s.text.Bytes(), []byte("ready\n")) {
		s.once.Do(func() { close(s.ready) })
	}
	return len(p), nil
}

// listen runs an HTTPS receiver with a certificate that the service trusts.
func listen(hook http.HandlerFunc) (server *httptest.Server, err error) {
	secrets, certificate := filepath.Join(dataDir, "secrets"), filepath.Join(dataDir, "ca.pem")
	ca, err := keys.LoadOrCreateCA(secrets, certificate, time.Now)
	if err != nil {
		return nil, err
	}
	own, err := ca.Issue()
	if err != nil {
		return nil, err
	}
	server = httptest.NewUnstartedServer(hook)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	return server, nil
}

// listed waits until lists contain a watch. Creating a watch waits two seconds for that, which may
// not be enough on a busy machine. Getting it by its id waits until it is there, or fails with an
// error that permits a retry.
func listed(ctx context.Context, c *client.Client, watchID string) error {
	for {
		if _, err := c.GetWatch(ctx, watchID); err == nil || !client.MayPass(err) {
			return err
		}
	}
}

func network() (*devclient.Client, error) {
	file, err := runfile.Read(dataDir)
	if err != nil {
		return nil, err
	}
	return devclient.New(file.Stellar.RPCURL, file.Stellar.FriendbotURL)
}

func newWallet(ctx context.Context) (address string, err error) {
	network, err := network()
	if err != nil {
		return "", err
	}
	defer network.Close()
	if address, _, err = network.CreateAccount(ctx); err != nil {
		return "", err
	}
	return address, network.NextLedger(ctx)
}

func pay(ctx context.Context, to, amount, memo string) error {
	network, err := network()
	if err != nil {
		return err
	}
	defer network.Close()
	ids, err := devnet.LoadOrCreateIdentities(runfile.IdentitiesFile(dataDir))
	if err != nil {
		return err
	}
	_, err = network.Pay(ctx, devclient.PayRequest{
		From: ids.PayerSeed, To: to, Amount: amount, Memo: txnbuild.MemoText(memo),
	})
	return err
}
