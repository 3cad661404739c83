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

// ListenFree binds a free port on the host for a program that can't be given a listener. It avoids
// the range from which kernels take the ports of outgoing connections (from 32768 on Linux, from
// 49152 in RFC 6335), so that the port normally stays free until the program binds it, however many
// connections are opened in the meantime. Close the listener to release the port.
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
