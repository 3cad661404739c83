package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/forward"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams/topology"
)

const clusterPassword = "not told to anybody"

// theExamplesStory is the day of a user who follows the help. A command has its own scene if it
// needs something to exist, or to be deleted, first. All others run in the middle, in the scene
// without a command.
func theExamplesStory() []scene {
	return append(append(aFirstDay(), scene{}), aLaterDay()...)
}

func aFirstDay() []scene {
	const listening = "listening for the events of"
	receiverPort := []string{"LUMENHOOK_LISTEN=127.0.0.1:8443"} // the port is replaced by a free one
	return []scene{
		{command: "run", only: "a demo", ready: "  ready\n", stays: true, after: (*stage).meet,
			// Default ports may be in use on this machine, and the examples' receiver also has another
			// one.
			env: append(anyPortsAsVariables(), "LUMENHOOK_EGRESS_PORTS=1024-65535",
				"LUMENHOOK_LEDGER_INTERVAL=200ms", "LUMENHOOK_BALANCE_MOVES=true")},
		// No request leaves this machine. The process says what it waits for and keeps running.
		{command: "run", only: "testnet in a separate", ready: "not ready yet: follower", stays: true,
			env: append(anyPortsAsVariables(), "LUMENHOOK_STELLAR_RPC_URL=http://127.0.0.1:1")},
		// Before a second endpoint exists.
		{command: "listen", only: "your only endpoint", ready: listening},
		{command: "devnet receiver", only: "with secrets", ready: "listening at", env: receiverPort},
		{command: "devnet receiver", ready: "listening at", stays: true, env: receiverPort},
		{command: "endpoints create"},
		{command: "endpoints test"},
		{command: "devnet account", only: "10,000"},
		{command: "devnet asset"},
		{command: "devnet account"},
		{command: "watches create"},
		{command: "devnet pay", after: (*stage).isTold},
		{command: "events pull", only: "--follow", ready: `"evt_`},
		{command: "events pull"},
		{command: "listen", ready: listening},
		{command: "events tail", ready: "as they happen"},
		{command: "trigger", before: (*stage).hasAPlainReceiver},
		{command: "doctor", only: "default data folder"},
		{command: "doctor", code: 1}, // the brokers require a login, and shop.example has no server
		{command: "topics tail", ready: `"type":"`},
		{command: "verify", before: (*stage).keepsAWebhook},
		{command: "secrets create"},
	}
}

func aLaterDay() []scene {
	return append([]scene{
		{command: "health", only: "this machine"},
		{command: "ledger sources", only: "this machine"},
		{command: "topics check", only: "this machine"},
		{command: "topics plan", only: "this machine"},
		{command: "ledger check", only: "upgrade"},
		{command: "ledger reset", code: cli.ExitFailure}, // the network was not reset
		{command: "endpoints rotate-secret"},
		{command: "endpoints rotate-signing-key"},
		{command: "endpoints disable"},
		{command: "endpoints replay"},
		{command: "endpoints enable"},
		{command: "keys create"},
		{command: "keys roll"},
		{command: "keys revoke"},
		{command: "secrets rewrap"},
		{command: "secrets drop", before: (*stage).knowsAnOldKey},
		{command: "secrets signing create", before: (*stage).hasAMasterKey},
		{command: "events receipt"},
		{command: "verify-receipt"},
		{command: "secrets signing list", after: (*stage).hasOtherSigningKeys},
		{command: "secrets signing rotate", only: "tomorrow"},
		// Only one key may be waiting to sign at a time.
		{command: "secrets signing rotate", env: []string{"LUMENHOOK_SIGNING_KEYS_FILE=other-keys"}},
		{command: "secrets signing drop", before: (*stage).waitsForAMonth},
		{command: "install-clickhouse", // already installed: the story's service uses it
			stands: map[string]string{"/var/cache/lumenhook": engineCache()}},
		{command: "backup", only: "this machine"},
		{command: "restore", only: "data folder", before: (*stage).savedItsSecrets},
		{command: "watches delete"},
		{command: "endpoints delete"},
	}, onACluster()...)
}

// onACluster uses the stage's broker as the cluster. It is the only broker, so the topics have one
// copy, and the flags accept the loss that this risks.
func onACluster() []scene {
	// As many partitions as the copied service has.
	four := map[string]string{"48": "4"}
	seven := map[string]string{"96": "7"}                   // 96 partitions take long on this broker
	oneUser := map[string]string{"--kafka-user backup": ""} // the broker has no other user
	return []scene{
		{command: "topics plan", env: cluster("copied."), stands: four, code: cli.ExitDiffers},
		{command: "topics create", env: cluster("copied."), stands: four},
		{command: "topics check", env: cluster("copied.")},
		{command: "topics acls", env: cluster("copied.")},
		{command: "topics copy", env: cluster("copied.")},
		{command: "ledger check", env: append(cluster("copied."), "LUMENHOOK_NETWORK=PASSPHRASE")},
		{command: "backup", env: cluster("copied."), stands: oneUser},
		{command: "restore", env: cluster("served.")},
		{command: "serve", only: "that are set in", env: cluster("served."), ready: "the API at http://",
			stays: true, after: (*stage).serves},
		{command: "health"},
		{command: "ledger sources", code: 1}, // no role in the file is a follower
		{command: "serve", env: append(cluster("served."), "LUMENHOOK_DATA_DIR=engine",
			"LUMENHOOK_METRICS_LISTEN=127.0.0.1:0"), ready: "readiness at http://",
			before: (*stage).hasItsKey},
		// The service's history has continued since its topics were copied.
		{command: "repartition", env: append(cluster("copied."), "LUMENHOOK_CLICKHOUSE_DSN="),
			stands: seven},
	}
}

func engineCache() string {
	if dir := os.Getenv(clickhouse.CacheDirVariable); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		panic(err)
	}
	return filepath.Join(dir, "lumenhook")
}

// cluster returns the environment of commands on the cluster, which has only one user.
func cluster(prefix string) []string {
	return []string{
		"LUMENHOOK_TOPIC_PREFIX=" + prefix,
		"LUMENHOOK_KAFKA_USER=admin",
		"LUMENHOOK_KAFKA_PASSWORD=" + clusterPassword,
		"LUMENHOOK_REPLICATION=1",
		"LUMENHOOK_ACCEPT_LOSS=" + strings.Join(topology.Names(), ","),
	}
}

// anyPortsAsVariables returns variables that make run listen on free ports.
func anyPortsAsVariables() (env []string) {
	args := anyPorts("")
	env = append(env, cli.Variable("log-format")+"=text")
	for i, arg := range args {
		if strings.HasSuffix(arg, "-listen") {
			env = append(env, cli.Variable(strings.TrimPrefix(arg, "--"))+"="+args[i+1])
		}
	}
	return env
}

// furnish starts what the reader has besides the service, and maps placeholders to it.
func (s *stage) furnish(t *testing.T) {
	t.Helper()
	b, err := broker.Start(broker.Config{
		Dir:      t.TempDir(),
		Listen:   "127.0.0.1:0",
		Logger:   slog.New(slog.DiscardHandler),
		User:     "admin",
		Password: clusterPassword,
		Failed:   func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	s.names = map[string]string{
		"kafka-1:9092,kafka-2:9092": b.Addr(),
		"kafka-1:9092":              b.Addr(),
		"8443":                      freePort(t),
		"10.0.0.7:9464":             "127.0.0.1:" + freePort(t),
		"/etc/lumenhook/":           "etc/",
		"/backups/":                 "backups/",
		"/mnt/bucket/":              "bucket/",
		"~/.local/":                 "local/",
		"2026-11-01T00:00:00Z":      time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
	}
}

// meet runs after the start. It maps placeholders to the service's addresses and writes the
// configuration file of a cluster.
func (s *stage) meet() {
	s.t.Helper()
	s.eventually("the service has a history", func() bool {
		var err error
		s.file, err = runfile.Read(s.dir)
		return err == nil && s.file.ClickHouse != nil
	})
	history := s.file.ClickHouse
	s.names["PASSPHRASE"] = s.file.Stellar.NetworkPassphrase
	s.names["acc_…"] = s.file.AccountID
	s.names["https://hooks.example"] = s.file.APIURL
	s.names["https://rpc.example"] = s.file.Stellar.RPCURL
	config := fmt.Sprintf(`roles: [api, engine]
kafka-brokers: [%q]
clickhouse-dsn: %q
master-key-file: %q
network: %q
stellar-rpc-url: [%q]
api-listen: 127.0.0.1:0
metrics-listen: %s
data-dir: served
`, s.names["kafka-1:9092"], fmt.Sprintf("clickhouse://%s:%s@%s/%s", history.User,
		history.Password, history.Native, history.Database), keys.MasterKeyPath(s.dir),
		s.file.Stellar.NetworkPassphrase, s.file.Stellar.RPCURL, s.names["10.0.0.7:9464"])
	for _, name := range []string{"lumenhook.yaml", "etc/lumenhook.yaml"} {
		s.write(name, []byte(config))
	}
}

func (s *stage) serves() {
	s.t.Helper()
	s.eventually("the process on the cluster is ready", func() bool {
		resp, err := http.Get("http://" + s.names["10.0.0.7:9464"] + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// itsIDs matches the ids of created objects in a command's output.
var itsIDs = regexp.MustCompile(
	`(?m)^(?:id|address|asset|key id) +((ep_|wat_|key_|G|USDC:G)\w{20,})$`)

// learn maps the placeholders of later examples to the ids in an output.
func (s *stage) learn(output string) {
	for _, found := range itsIDs.FindAllStringSubmatch(output, -1) {
		s.names[found[2]+"…"] = found[1]
	}
}

// isTold waits until the payment has been delivered and is in the history.
func (s *stage) isTold() {
	s.t.Helper()
	var list client.List[client.Event]
	s.eventually("the payment is told", func() bool {
		status := s.call("GET", "/v1/events?memo=order-42&state=DELIVERED", nil, &list)
		return status == http.StatusOK && len(list.Data) > 1 // two watches match the payment
	})
	s.names["evt_…"] = list.Data[0].ID
	var told struct {
		Payment struct {
			TxHash string
			Ledger int
		}
	}
	if err := json.Unmarshal(list.Data[0].Data, &told); err != nil {
		s.t.Fatal(err)
	}
	s.names["3f…"] = told.Payment.TxHash
	s.names["63092000"], s.names["63093000"] = strconv.Itoa(told.Payment.Ledger),
		strconv.Itoa(told.Payment.Ledger+1)
}

// keepsAWebhook maps placeholders to the parts of a webhook in the receiver's log.
func (s *stage) keepsAWebhook() {
	s.t.Helper()
	lines := strings.Split(strings.TrimSpace(string(s.read("hooks.jsonl"))), "\n")
	received, err := forward.ReadReceived([]byte(lines[len(lines)-1]))
	if err != nil {
		s.t.Fatal(err)
	}
	s.names["1793620801"] = received.Timestamp
	s.names["v1=c80045e0917a30…"] = strconv.Quote(received.Signature)
	s.write("body.json", received.RawBody())
}

func (s *stage) knowsAnOldKey() {
	s.t.Helper()
	s.names["1483920075"] = strconv.FormatUint(uint64(s.ring()[0].ID), 10)
}

func (s *stage) masterKey() []byte {
	s.t.Helper()
	text, err := os.ReadFile(keys.MasterKeyPath(s.dir))
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

func (s *stage) hasAMasterKey() { s.write("secrets/engine/master-key", s.masterKey()) }
func (s *stage) hasItsKey()     { s.write("key.json", s.masterKey()) }

func (s *stage) savedItsSecrets() {
	s.t.Helper()
	to := filepath.Join(s.home, "restored")
	if err := os.Mkdir(to, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(s.home, ".lumenhook", "secrets"),
		to).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

// hasOtherSigningKeys copies the file, in which one key already signs.
func (s *stage) hasOtherSigningKeys() {
	s.write("other-keys", s.read(".lumenhook/secrets/"+keys.SigningFileName))
}

var signsFrom = regexp.MustCompile(`"signsFrom": ?"[^"]*"`)

// waitsForAMonth backdates the keys, so that the first one is no longer needed.
func (s *stage) waitsForAMonth() {
	s.t.Helper()
	const name = ".lumenhook/secrets/" + keys.SigningFileName
	month := 0
	s.write(name, signsFrom.ReplaceAllFunc(s.read(name), func([]byte) []byte {
		month++
		return fmt.Appendf(nil, `"signsFrom":"2020-%02d-01T00:00:00Z"`, month)
	}))
	list, err := keys.ReadSigning(filepath.Join(s.home, name))
	if err != nil || len(list) != 2 {
		s.t.Fatalf("%d keys: %v", len(list), err)
	}
	s.names["kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"] = list[0].ID
}

// hasAPlainReceiver starts a receiver without TLS that has the secret in hook.secret.
func (s *stage) hasAPlainReceiver() {
	s.t.Helper()
	secrets, err := os.ReadFile(filepath.Join(s.home, "hook.secret"))
	if err != nil {
		s.t.Fatal(err)
	}
	secret := strings.Fields(string(secrets))[0]
	server := httptest.NewServer(&onLaptop{secret: domain.Secret(secret), times: make(map[string]int)})
	s.t.Cleanup(server.Close)
	s.names["127.0.0.1:3000"] = strings.TrimPrefix(server.URL, "http://")
}
