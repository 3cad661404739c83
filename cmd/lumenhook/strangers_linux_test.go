package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

// A stranger opens thousands of connections to the ports of a service that may have 1,024 open
// files. Payments must still be delivered, and clients with a password must get answers on each
// port.
func TestIdleConnectionsEndNothing(t *testing.T) {
	const limit, connections = 1024, 700
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir(), files: limit}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms")
	if !strings.Contains(s.output.String(), "the limit of open files is low") {
		t.Errorf("the program does not warn of its limit:\n%s", s.output)
	}
	h := startHooks(t, s.dir)
	var endpoint struct{ ID, Secret string }
	s.cli(&endpoint, "endpoints", "create", "--url", h.url)
	h.mu.Lock()
	h.secret = endpoint.Secret
	h.mu.Unlock()
	wallet := s.watchedWalletOf(endpoint.ID)
	s.eventually("the engine of the history", func() bool {
		return s.call("GET", "/v1/events", nil, nil) == http.StatusOK
	})

	for _, at := range []string{
		s.file.APIURL, s.file.MetricsURL, s.file.Stellar.RPCURL, s.file.ClickHouse.HTTP,
		"//" + s.file.ClickHouse.Native, "//" + s.file.KafkaBrokers[0],
	} {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		for range connections {
			conn, err := net.Dial("tcp", u.Host)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.file.PID))
	if err != nil || len(open) > limit*4/5 {
		t.Errorf("the service has %d files open, %v", len(open), err)
	}

	var paid struct{ ID string }
	s.devnet(&paid, "pay", "--to", wallet, "--amount", "5", "--json")
	s.eventually("the webhook", func() bool { return h.has(paid.ID) })
	s.eventually("the history", func() bool {
		var page struct{ Data []struct{ ID string } }
		return s.call("GET", "/v1/events", nil, &page) == http.StatusOK && len(page.Data) == 1
	})
	if topics, err := s.topicsAs(s.file.Kafka.SASL()); err != nil || len(topics) == 0 {
		t.Errorf("Kafka answers %d topics, %v", len(topics), err)
	}
	if out := s.must("sql", "SELECT 41+1"); !strings.Contains(out, "42") {
		t.Errorf("ClickHouse answers %q", out)
	}
	s.text(s.file.MetricsURL)
	s.interrupt()
}
