package egress

import (
	"crypto/tls"
	"net"
	"testing"
)

// TestAConnectionThatEndsAsItBegins: the receiver resets each connection right after the
// handshake, before or after the client has written what HTTP/2 begins with.
func TestAConnectionThatEndsAsItBegins(t *testing.T) {
	cfg := &tls.Config{Certificates: []tls.Certificate{ca().issue(nil)}, NextProtos: []string{"h2"}}
	url := "https://" + rawTLS(t, cfg, func(c *tls.Conn) { hangUp(c.NetConn(), true) })
	c := newClient(t, nil)
	for range 200 {
		wantResult(t, post(t, c, url), 0, ConnRefused)
	}
	// What a failed beginning returns is no connection.
	raw := must(net.Dial("tcp", url[len("https://"):])).(*net.TCPConn)
	_ = raw.Close()
	if _, err := c.newHTTP2(t.Context(), tls.Client(raw, c.tls), newMetered(raw),
		must(c.target(url)), true); classify(err) != ConnRefused {
		t.Errorf("HTTP/2 on a closed connection begins with %v", err)
	}
}
