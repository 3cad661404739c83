package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// failingListener fails permanently at its first connection.
type failingListener struct{ net.Listener }

func (f failingListener) Accept() (net.Conn, error) {
	return nil, errors.New("the socket is broken")
}

type failingRole struct {
	part
	healed chan struct{}
}

func (r *failingRole) Name() string { return string(RoleMailer) }

func (r *failingRole) Start(context.Context) error {
	r.Go("mailer", func(ctx context.Context) error {
		select {
		case <-r.healed:
			<-ctx.Done()
			return nil
		default:
			return errors.New("its server is strange")
		}
	})
	return nil
}

// A role that fails must be restarted and counted. Meanwhile the node isn't ready and reports which
// role fails and why. The other parts keep working, even a listener that also breaks.
func TestARoleThatFailsEndsNoOther(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	stack := &Stack{
		Failed: func(err error) { t.Errorf("the process ends: %v", err) },
		Logger: logger,
	}
	defer stack.Stop()
	n := New(Config{Metrics: NewMetrics(), Now: time.Now, Logger: logger,
		Disk: NewDiskGuard(t.TempDir(), 0, t.Logf, logger)}, stack)
	role := &failingRole{n.part(), make(chan struct{})}
	if err := stack.Start(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	server, err := NewHTTPServer(HTTPConfig{
		Server: api.NewServer(n.operations(), logger), Log: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	operations := n.part()
	defer operations.Stop()
	operations.serve("operations", server, failingListener{listener})
	client := http.Client{Timeout: 5 * time.Second}
	testkit.Eventually(t, "the listener is opened again, and says which role fails", func() bool {
		resp, err := client.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var text strings.Builder
		_ = resp.Write(&text)
		return resp.StatusCode == http.StatusServiceUnavailable &&
			strings.Contains(text.String(), "its server is strange")
	})
	restarts := n.cfg.Metrics.restarts
	if testutil.ToFloat64(restarts.WithLabelValues("mailer")) < 1 ||
		testutil.ToFloat64(restarts.WithLabelValues("operations")) != 1 {
		t.Error("the restarts are not counted")
	}
	close(role.healed)
	testkit.EventuallyNil(t, "the role works again", func() error {
		return Check(context.Background(), role)
	})
}
