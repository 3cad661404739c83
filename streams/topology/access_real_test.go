//go:build kafka

package topology_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// tellsTime reports whether the guarded broker reports its clock.
const tellsTime = true

// hasInternalTopics reports whether the broker keeps positions and transactions in topics.
const hasInternalTopics = true

// newGuarded starts a real broker that requires a login and denies everything to all users except
// admin.
func newGuarded(t *testing.T, users ...string) kafka.Cluster {
	t.Helper()
	c, err := kafkatest.Start(t.Context(), kafkatest.Config{
		Dir:     t.TempDir(),
		Brokers: 1,
		Secure:  true,
		Users:   users,
	})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return kafka.Cluster{Brokers: c.Addrs(), TLS: kafka.TLS{Enabled: true, CAFile: c.CAFile()}}
}

func passwordOf(user string) string { return kafkatest.Password(user) }
