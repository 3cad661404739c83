//go:build !kafka

package topology_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// tellsTime reports whether the guarded broker reports its clock.
const tellsTime = false

// hasInternalTopics reports whether the broker keeps positions and transactions in topics.
const hasInternalTopics = false

// newGuarded starts an embedded broker that requires a login and denies everything to all users
// except admin.
func newGuarded(t *testing.T, users ...string) kafka.Cluster {
	t.Helper()
	opts := []kfake.Opt{
		kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser(kafka.SASLPlain, adminUser, passwordOf(adminUser)),
	}
	for _, user := range users {
		opts = append(opts, kfake.User(kafka.SASLPlain, user, passwordOf(user)))
	}
	b, err := kfake.NewCluster(opts...)
	must(t, err)
	t.Cleanup(b.Close)
	return kafka.Cluster{Brokers: b.ListenAddrs()}
}

func passwordOf(user string) string { return "secret-of-" + user }
