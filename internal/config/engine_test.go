package config_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const prefix = "lumenhook."

// may grants a permission on a topic to the tests' user.
func may(operation kmsg.ACLOperation, topic string) kfake.ACL {
	return kfake.ACL{
		Resource:  kmsg.ACLResourceTypeTopic,
		Name:      prefix + topic,
		Pattern:   kmsg.ACLResourcePatternTypeLiteral,
		Operation: operation,
		Allow:     true,
	}
}

// A user who lacks permissions must learn which ones are needed, rather than that no engine is
// running.
func TestAUserWithoutRightsIsToldWhichAreNeeded(t *testing.T) {
	for name, rights := range map[string][]kfake.ACL{
		"nothing": nil,
		"reads alone": {
			may(kmsg.ACLOperationRead, schemas.TopicResults),
			may(kmsg.ACLOperationDescribe, schemas.TopicCommands),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := kfake.NewCluster(
				kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
				kfake.SeedTopics(1, prefix+schemas.TopicCommands, prefix+schemas.TopicResults),
				kfake.User(kafka.SASLPlain, "clerk", "secret", rights...),
			)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			err = openAccount(t, kafka.Cluster{
				Brokers: b.ListenAddrs(),
				Prefix:  prefix,
				Quiet:   true,
				Logger:  slog.New(slog.DiscardHandler),
				SASL: kafka.SASL{
					Mechanism: kafka.SASLPlain,
					User:      "clerk",
					Password:  "secret",
				},
			})
			if err == nil || !strings.Contains(err.Error(), "`lumenhook topics acls`") ||
				strings.Contains(err.Error(), "no engine has answered") ||
				strings.Contains(err.Error(), "may still take effect") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func openAccount(t *testing.T, cluster kafka.Cluster) error {
	t.Helper()
	e, err := config.OpenEngine(t.Context(), cluster)
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = e.Submit(t.Context(), domain.RevokeKey{}, config.NewID(domain.AccountPrefix))
	return err
}
