package kafka_test

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// One broker that is up is enough, however the other addresses fail.
func TestListeningFailsUnlessABrokerAnswers(t *testing.T) {
	t.Parallel()
	b, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	up, hung := b.ListenAddrs()[0], silent.Addr().String()
	other := strings.TrimPrefix(web.URL, "http://")
	const down = "127.0.0.1:1"
	for _, c := range []struct {
		brokers []string
		fails   bool
	}{
		{nil, false},
		{[]string{up}, false},
		{[]string{down, hung, other, up}, false},
		{[]string{down, "127.0.0.1:2"}, true},
		{[]string{other, hung}, true},
	} {
		err := kafka.Cluster{
			Brokers: c.brokers,
			Quiet:   true,
			Logger:  slog.New(slog.DiscardHandler),
		}.Listening(t.Context())
		var unreachable *kafka.UnreachableError
		if errors.As(err, &unreachable) != c.fails || (err != nil) != c.fails {
			t.Errorf("%v: %v", c.brokers, err)
		}
		if c.fails && (!slices.Equal(unreachable.Brokers, c.brokers) ||
			slices.Contains(unreachable.Causes, nil)) {
			t.Errorf("%v: the error is %#v", c.brokers, unreachable)
		}
		if errors.Is(err, syscall.ECONNREFUSED) != (c.fails && c.brokers[0] == down) {
			t.Errorf("%v: the cause is %v", c.brokers, err)
		}
	}
}
