package streams_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/lumenhook/lumenhook/streams"
)

// TestListeningFailsWhereEveryBrokerRefuses: one broker that is up is enough, and an
// address without a port is the client's to report.
func TestListeningFailsWhereEveryBrokerRefuses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	up, down := listener.Addr().String(), "127.0.0.1:1"
	for _, c := range []struct {
		brokers []string
		refused bool
	}{
		{nil, false},
		{[]string{up}, false},
		{[]string{down, up}, false},
		{[]string{down, "127.0.0.1"}, false},
		{[]string{down}, true},
		{[]string{down, "127.0.0.1:2"}, true},
	} {
		err := streams.Cluster{Brokers: c.brokers}.Listening(t.Context())
		if errors.Is(err, syscall.ECONNREFUSED) != c.refused || (err != nil) != c.refused {
			t.Errorf("%v: %v", c.brokers, err)
		}
	}
}
