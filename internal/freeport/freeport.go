// Package freeport finds ports for programs that bind theirs later, and cannot be
// handed a listener. It seeks them where kernels do not take the ports of outgoing
// connections from (Linux begins at 32768, RFC 6335 at 49152): there a port stays
// free until its program binds it, however many connections the machine opens
// meanwhile.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	first = 16_384
	count = 16_384
	tries = 16
)

// Listen binds a free port of a host. Whoever closes the listener lets it go.
func Listen(host string) (net.Listener, error) {
	for range tries {
		// #nosec G404 -- any port will do
		at := strconv.Itoa(first + rand.IntN(count)) //nolint:forbidigo // as above
		if l, err := net.Listen("tcp", net.JoinHostPort(host, at)); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", net.JoinHostPort(host, "0"))
}
