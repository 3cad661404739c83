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

// mechanism is the only SASL mechanism. If kfake has a PLAIN user, it also accepts PLAIN clients
// without any credentials.
const mechanism = "SCRAM-SHA-256"

// requirePassword makes the broker require a password. It deletes the password that kfake stored in
// an earlier start, which would take precedence.
func (b *Broker) requirePassword(user, password string) error {
	if password == "" {
		return errors.New("broker: User is set without a Password")
	}
	stored := filepath.Join(b.dir, "sasl.json")
	if err := os.Remove(stored); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("broker: removing the previous password: %w", err)
	}
	b.login = []kgo.Opt{kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())}
	return nil
}

func (b *Broker) newClient(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(slices.Concat(b.login, []kgo.Opt{kgo.SeedBrokers(b.addr)}, opts)...)
}

// newestPlainVersions is the last version of ApiVersions in which the response doesn't depend on
// the request's fields.
const newestPlainVersions = 4

// nameFirstHandshake makes the broker advertise version 0 of SASLHandshake, which kfake doesn't
// support, in addition to version 1. librdkafka, and therefore kcat, uses version 1, but only if
// the broker advertises both.
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
		return fmt.Errorf("broker: requesting the API versions: %w", err)
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
