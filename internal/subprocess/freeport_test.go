package subprocess_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

func TestAFreePortIsNoConnections(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if errors.Is(err, os.ErrNotExist) {
		text, err = []byte("49152 65535"), nil // RFC 6335, section 6
	}
	if err != nil {
		t.Fatal(err)
	}
	var from, to int
	if _, err := fmt.Sscan(string(text), &from, &to); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		l, err := subprocess.ListenFree("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if port := l.Addr().(*net.TCPAddr).Port; port >= from && port <= to {
			t.Errorf("%d is among the ports of outgoing connections, %d to %d", port, from, to)
		}
	}
}
