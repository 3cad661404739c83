package subprocess

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

// ListenFree binds a free port of a host, for a program that binds it later and cannot be given a
// listener. It seeks one where kernels do not take the ports of outgoing connections from (Linux
// begins at 32768, RFC 6335 at 49152): there a port stays free until its program binds it, however
// many connections the machine opens meanwhile. Close the listener to free the port.
func ListenFree(host string) (net.Listener, error) {
	for range tries {
		// #nosec G404 -- any port will do
		at := strconv.Itoa(first + rand.IntN(count)) //nolint:forbidigo // as above
		if l, err := net.Listen("tcp", net.JoinHostPort(host, at)); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", net.JoinHostPort(host, "0"))
}
