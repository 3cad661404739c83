package streams

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// listeningTimeout bounds one connection of [Cluster.Listening].
const listeningTimeout = 2 * time.Second

// Listening fails if every broker address refuses connections, which a wrong address and
// a stopped cluster have in common. A command reports that at once; a service retries
// instead. Any other trouble is left to the first request, which knows more about it.
func (c Cluster) Listening(ctx context.Context) error {
	var refused error
	for _, address := range c.Brokers {
		dialing, cancel := context.WithTimeout(ctx, listeningTimeout)
		conn, err := new(net.Dialer).DialContext(dialing, "tcp", address)
		cancel()
		if err == nil {
			return conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		refused = err
	}
	if refused == nil {
		return nil
	}
	return fmt.Errorf("streams: asking the brokers %s: %w", strings.Join(c.Brokers, ", "), refused)
}
