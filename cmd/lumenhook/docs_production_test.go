//go:build kafka

package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/pages"
	"github.com/lumenhook/lumenhook/internal/receiver"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// TestProductionIsFollowed follows the tutorial as written, on three real brokers that require a
// login, with Kafka's own kafka-configs.sh. The roles start as their systemd unit says.
func TestProductionIsFollowed(t *testing.T) {
	p, err := pages.Read(filepath.Join("..", ".."), productionPage)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkplace(t)
	began := time.Now()
	w.sh.types(w.variables())
	w.sh.followBlocks(p, toolchainMax)
	t.Logf("the page took %.0f s:\n%s", time.Since(began).Seconds(), w.sh.output)
}

// workplace is an operator's shell in a folder that stands for /etc/lumenhook.
type workplace struct {
	*site
	home, tools string
	receiver    string // URL
	sh          *shell
}

func newWorkplace(t *testing.T) *workplace {
	t.Helper()
	a := &addresses{t: t, dir: t.TempDir(), stack: &node.Stack{
		Failed: func(err error) { t.Error(err) },
		Logger: slog.New(slog.DiscardHandler),
	}}
	t.Cleanup(a.stack.Stop)
	if err := os.Mkdir(filepath.Join(a.dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.startDevnet(ledgerEvery, a.stack.Logger)
	a.startClickHouse(a.stack.Logger)
	w := &workplace{site: &site{addresses: a, logs: t.ArtifactDir()}, home: t.TempDir()}
	w.startBrokers()
	w.tools = filepath.Join(w.home, "tools")
	w.sh = openShell(t, w.home,
		w.tools+":"+filepath.Join(w.home, "bin")+":"+os.Getenv("PATH"))
	for _, port := range []string{"8080", "9461", "9462", "9463", "9464"} {
		w.sh.ports = append(w.sh.ports, port, freePort(t))
	}
	w.startReceiver()
	w.installTools()
	return w
}

func (w *workplace) startReceiver() {
	w.t.Helper()
	ca, err := keys.LoadOrCreateCA(filepath.Join(w.dir, "secrets"), filepath.Join(w.dir, "ca.pem"),
		time.Now)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := receiver.New(receiver.Config{
		Listen:         "127.0.0.1:0",
		GetCertificate: ca.GetCertificate,
		Secrets: func() []domain.Secret {
			text, err := os.ReadFile(filepath.Join(w.home, "secrets", "endpoint"))
			if err != nil {
				w.t.Error(err)
			}
			return []domain.Secret{domain.Secret(strings.TrimSpace(string(text)))}
		},
		OnWebhook: func(receiver.Webhook) {},
	})
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = r.Close(w.t.Context()) })
	w.receiver = r.URL()
}

// installTools writes stand-ins for the programs that the reader's machines have.
func (w *workplace) installTools() {
	w.t.Helper()
	jars, err := kafkatest.Install(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	// #nosec G101 -- a test's own
	w.write(filepath.Join(w.home, "admin.properties"), fmt.Sprintf(
		"security.protocol=SASL_SSL\nsasl.mechanism=%s\nssl.truststore.type=PEM\n"+
			"ssl.truststore.location=%s\nsasl.jaas.config=org.apache.kafka.common.security.scram."+
			"ScramLoginModule required username=%q password=%q;\n",
		saslMechanism, w.cluster.CAFile(), kafkatest.Admin, kafkatest.Password(kafkatest.Admin)))
	socket := filepath.Join(w.dir, "kafka.socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = w.cluster.Serve(l) }() // until the listener is closed
	w.t.Cleanup(func() { _ = l.Close() })
	if err := os.Mkdir(w.tools, 0o755); err != nil {
		w.t.Fatal(err)
	}
	for name, script := range map[string]string{
		"kafka-configs.sh": fmt.Sprintf("exec java -cp '%s/*' kafka.admin.ConfigCommand \"$@\"", jars),
		"ssh": fmt.Sprintf("exec curl -sSf --unix-socket %s -X POST "+
			"http://cluster/nodes/${1#kafka-}/$3", socket),
		// chown does nothing, because the test's user owns all files, but it fails for the operators'
		// secrets in this folder: the service must not own them.
		"chown":     `[[ " $* " != *" secrets "* ]]`,
		"systemctl": w.systemctl(),
	} {
		testkit.WriteProgram(w.t, filepath.Join(w.tools, name), "#!/bin/bash\nset -eu\n"+script+"\n")
	}
}

// systemctl returns a script that starts units as `systemctl enable --now` does, with the paths of
// this test.
func (w *workplace) systemctl() string {
	w.t.Helper()
	unit, err := os.ReadFile("../../deploy/systemd/lumenhook@.service")
	if err != nil {
		w.t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(unit), "\nExecStart=")
	command, _, found := strings.Cut(command, "\n")
	if !found {
		w.t.Fatal("the unit has no ExecStart")
	}
	at := strings.NewReplacer("/usr/local/bin", filepath.Join(w.home, "bin"),
		"/etc/lumenhook", w.home, "/var/lib/lumenhook", filepath.Join(w.home, "state"),
		"%i", "$role", "%H", "host-1")
	var env strings.Builder
	for _, role := range node.Roles() {
		text, err := os.ReadFile(filepath.Join("../../deploy/systemd", string(role)+".env"))
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&env, "%s) true\n%s;;\n", role, w.sh.withPorts(string(text)))
	}
	return fmt.Sprintf(`shift 2
set -a
LUMENHOOK_API_LISTEN=127.0.0.1:%s LUMENHOOK_EGRESS_ALLOW=127.0.0.1/32
LUMENHOOK_EGRESS_PORTS=1024-65535 LUMENHOOK_EGRESS_CA=%s
for unit; do
role=${unit#lumenhook@}
case $role in
%sesac
%s > %s/$role.log 2>&1 &
done`, w.sh.withPorts("8080"), filepath.Join(w.dir, "ca.pem"), &env, at.Replace(command), w.logs)
}

// variables sets what the page asks its reader to set.
func (w *workplace) variables() string {
	wallet, err := keypair.Random()
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("BROKERS=%s KAFKA_CA=%s ADMIN_PASSWORD=%s CLICKHOUSE='%s'\n"+
		"NETWORK='%s' RPC=%s FRIENDBOT=%s RECEIVER=%s WALLET=%s BACKUP=%s\n",
		strings.Join(w.cluster.Addrs(), ","), w.cluster.CAFile(),
		kafkatest.Password(kafkatest.Admin), w.history, w.devnet.Passphrase(), w.devnet.RPCURL(),
		w.devnet.FriendbotURL(), w.receiver, wallet.Address(), filepath.Join(w.home, "backup"))
}
