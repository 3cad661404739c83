package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// mechanism is the only one: once kfake has one user of PLAIN, it accepts PLAIN clients
// without user and password.
const mechanism = "SCRAM-SHA-256"

// askWho makes the broker require a password. It deletes kfake's stored password of an earlier
// start, which would take precedence.
func (b *Broker) askWho(user, password string) error {
	if password == "" {
		return errors.New("broker: Password must be set where User is")
	}
	stored := filepath.Join(b.dir, "sasl.json")
	if err := os.Remove(stored); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("broker: taking away the former password: %w", err)
	}
	b.login = []kgo.Opt{kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())}
	return nil
}

// newClient opens a client of our own to this broker.
func (b *Broker) newClient(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(slices.Concat(b.login, []kgo.Opt{kgo.SeedBrokers(b.addr)}, opts)...)
}

// newestPlainVersions is the last version of ApiVersions whose request has no fields that
// affect the answer.
const newestPlainVersions = 4

// nameFirstHandshake makes the broker list version 0 of SASLHandshake, which kfake does not know,
// in addition to version 1. librdkafka, and therefore kcat, logs in with version 1, but only to a
// broker that lists both.
func (b *Broker) nameFirstHandshake(ctx context.Context) error {
	client, err := b.newClient()
	if err != nil {
		return err
	}
	defer client.Close()
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "lumenhook", "1"
	known, err := ask.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("broker: asking which requests are known: %w", err)
	}
	for i := range known.ApiKeys {
		if known.ApiKeys[i].ApiKey == kmsg.SASLHandshake.Int16() {
			known.ApiKeys[i].MinVersion = 0
		}
	}
	b.hook(kmsg.ApiVersions, func(r kmsg.Request) kmsg.Response {
		if r.GetVersion() > newestPlainVersions {
			return nil
		}
		answer := *known
		answer.ApiKeys = slices.Clone(known.ApiKeys)
		answer.Version = r.GetVersion()
		return &answer
	})
	return nil
}
