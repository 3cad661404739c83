//go:build package

package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const onePage = "../../docs/operate/one-machine.md"

// TestOneMachineIsFollowed runs the commands on the page unchanged, as root on a bare Debian,
// with the package, in the sandboxes of its units, and with the test's own network and receiver.
func TestOneMachineIsFollowed(t *testing.T) {
	j := newJail(t)
	j.packages()
	j.furnish()
	j.startWorld()
	text, err := os.ReadFile(onePage)
	if err != nil {
		t.Fatal(err)
	}
	script := "set -euo pipefail\n. /share/variables\n"
	blocks := regexp.MustCompile("(?s)```(sh|text)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	var expected []string
	for i, b := range blocks {
		switch {
		case b[1] == "sh":
			script += "echo '== block'\n" + b[2]
			expected = append(expected, "")
		case i > 0: // the first block contains the reader's own values
			expected[len(expected)-1] = strings.TrimSpace(b[2])
		}
	}
	if len(expected) < 8 {
		t.Fatalf("only %d blocks were found", len(expected))
	}
	if err := os.WriteFile(filepath.Join(j.share, "page"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := j.inside("timeout", "150", "bash", "/share/page").CombinedOutput()
	if err != nil {
		t.Fatalf("the page ended with %v:\n%s\nlog:\n%s", err, out, j.does("tail -n 40 /run/lumenhook.log 2>&1 || true"))
	}
	shown := strings.Split(string(out), "== block\n")[1:]
	for i, want := range expected {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
		pattern = regexp.MustCompile(` +`).ReplaceAllString(pattern, ` +`)
		if !regexp.MustCompile(pattern).MatchString(shown[i]) {
			t.Errorf("block %d shows\n%s\nand not\n%s", i, shown[i], want)
		}
	}
}

// startWorld starts what the reader of the page already has: a network with a wallet that
// receives a payment every two seconds, and a shop. It writes the variables of the page.
func (j *jail) startWorld() {
	j.t.Helper()
	if out, err := exec.Command("cp", j.program, filepath.Join(j.share, "world")).CombinedOutput(); err != nil {
		j.t.Fatalf("%v %s", err, out)
	}
	j.does(`export LUMENHOOK_DATA_DIR=/root/devnet
setsid /share/world run --no-demo --api-listen 127.0.0.1:18080 --metrics-listen 127.0.0.1:19464 \
  --kafka-listen 127.0.0.1:19092 --clickhouse-native-listen 127.0.0.1:19000 \
  --clickhouse-http-listen 127.0.0.1:18123 > /run/world.log 2>&1 < /dev/null &
until /share/world devnet account --field address > /root/wallet 2> /run/account.log; do sleep 0.5; done
setsid /share/world devnet receiver --secret-file /root/webhook-secret > /run/shop.log 2>&1 < /dev/null &
(while sleep 2; do /share/world devnet pay --to $(cat /root/wallet) --amount 1; done) \
  > /run/pay.log 2>&1 < /dev/null &
install -m 644 /root/devnet/ca.pem /share/ca.pem
cp /root/devnet/ca.pem /usr/local/share/ca-certificates/world.crt
update-ca-certificates > /run/certificates.log
/share/world devnet cert --out /root/tls > /run/cert.log
printf 'egress-ca: /share/ca.pem\negress-allow: ["127.0.0.1/32"]\n' > /share/world.yaml
cat > /share/variables <<END
PACKAGE=/share/lumenhook.deb ENGINE=/share/chdb.tgz
NETWORK=$(sed -n 's/.*"networkPassphrase": *"\(.*\)".*/"\1"/p' /root/devnet/run.json)
RPC_1=http://127.0.0.1:8000 RPC_2=http://localhost:8000
RECEIVER=https://127.0.0.1:8443/webhooks WALLET=$(cat /root/wallet)
API_HOST=localhost TLS_CERT=/root/tls/cert.pem TLS_KEY=/root/tls/key.pem
END`)
}
