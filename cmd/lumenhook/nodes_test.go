package main

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// secondNode starts an API in this process, with the service's topics and master key, and returns
// its URL.
func (s *testService) secondNode() string {
	t := s.t
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	say := func(string, ...any) {}
	sealer, keyText, err := (keys.MasterKeyPlace{DataDir: s.dir}).Open()
	if err != nil {
		t.Fatal(err)
	}
	wallets, err := new(config.Ledgers).Lookup(logger)
	if err != nil {
		t.Fatal(err)
	}
	stack := &node.Stack{Failed: func(err error) { t.Error(err) }, Logger: logger}
	t.Cleanup(stack.Stop)
	n := node.New(node.Config{
		Cluster: kafka.Cluster{
			Brokers:  s.file.KafkaBrokers,
			Prefix:   "lumenhook.",
			ClientID: "second",
			SASL:     s.file.Kafka.SASL(),
			Logger:   logger,
		},
		StateDir:       t.TempDir(),
		Disk:           node.NewDiskGuard(t.TempDir(), 1, say, logger),
		Metrics:        node.NewMetrics(),
		Now:            time.Now,
		Logger:         logger,
		Say:            say,
		AttemptTimeout: time.Second,
		Sealer:         sealer,
		MasterKey:      keyText,
		Egress:         egress.Config{Policy: egress.Policy{Allow: egress.LoopbackPrefixes()}},
		API: node.APIConfig{
			Server:  node.ServerConfig{Listen: "127.0.0.1:0"},
			Wallets: wallets,
		},
	}, stack)
	if err := n.Start(t.Context(), node.RoleAPI); err != nil {
		t.Fatal(err)
	}
	return n.APIURL()
}

// What one node has acknowledged, another must know: objects at once if a request names them, and
// keys soon after.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo")
	first := s.client(s.file.APIKey)
	other := s.secondNode()
	second, err := client.New(other, s.file.APIKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the second node is up to date", func() bool {
		_, err := second.ListKeys(t.Context(), client.Page{})
		return err == nil
	})
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	for range 20 {
		e, err := first.CreateEndpoint(t.Context(),
			client.EndpointCreate{URL: "https://127.0.0.1:8443/two"})
		if err != nil {
			t.Fatal(err)
		}
		w, err := second.CreateWatch(t.Context(),
			client.WatchCreate{
				WalletAddress: wallet.Address,
				EndpointID:    e.ID,
				Assets:        []client.Asset{{Code: "XLM"}},
			})
		if err != nil {
			t.Fatalf("a watch through one node on an endpoint through the other: %v", err)
		}
		if got, err := first.GetWatch(t.Context(), w.ID); err != nil || got.ETag != w.ETag {
			t.Fatalf("a read through the other node: %v %+v", err, got)
		}
		if _, err := second.UpdateEndpoint(t.Context(), e.ID, client.Patch{"description": "x"},
			client.IfMatch(e.ETag)); err != nil {
			t.Fatalf("a change through the other node: %v", err)
		}
	}

	// A repeat at the other node gets the same response, including secrets.
	endpoint := client.EndpointCreate{URL: "https://127.0.0.1:8443/repeat"}
	one, err := first.CreateEndpoint(t.Context(), endpoint, client.IdempotencyKey("k"))
	again, err2 := second.CreateEndpoint(t.Context(), endpoint, client.IdempotencyKey("k"))
	if err := errors.Join(err, err2); err != nil || one.Secret != again.Secret || one.ID != again.ID {
		t.Errorf("%v: %+v and %+v", err, one, again)
	}
	key, err := first.CreateKey(t.Context(), client.KeyCreate{Permissions: []string{"read"}},
		client.IdempotencyKey("k"))
	same, err2 := second.CreateKey(t.Context(), client.KeyCreate{Permissions: []string{"read"}},
		client.IdempotencyKey("k"))
	if err := errors.Join(err, err2); err != nil || *key.Key != *same.Key {
		t.Fatalf("%v: %+v and %+v", err, key, same)
	}

	// A cursor of one node is valid at the other.
	page, err := first.ListEndpoints(t.Context(), client.EndpointFilter{}, client.Page{Limit: 2})
	next, err2 := second.ListEndpoints(t.Context(), client.EndpointFilter{},
		client.Page{Limit: 2, Cursor: *page.NextCursor})
	if err := errors.Join(err, err2); err != nil || len(next.Data) != 2 ||
		next.Data[0].ID == page.Data[1].ID {
		t.Errorf("%v %+v", err, next)
	}

	reader, err := client.New(other, *key.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the key works at the other node", func() bool {
		_, err := reader.ListEndpoints(t.Context(), client.EndpointFilter{}, client.Page{})
		return err == nil
	})
	if err := first.RevokeKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.client(*key.Key).ListKeys(t.Context(), client.Page{})
	s.wantCode(err, "UNAUTHENTICATED") // at once at the node that revoked it
	s.eventually("the key is refused at the other node", func() bool {
		_, err = reader.ListEndpoints(t.Context(), client.EndpointFilter{}, client.Page{})
		return err != nil
	})
	s.wantCode(err, "UNAUTHENTICATED")
	s.interrupt()
}
