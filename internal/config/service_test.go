package config_test

import (
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// All parts of the service are found in the same way, so each error must name the flag that would
// replace the missing service.
func TestWhereNoServiceRunsEachErrorNamesTheFlagThatWouldDo(t *testing.T) {
	s := config.Service{DataDir: t.TempDir()}
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.RegisterKafka(f)
	_, api := s.API()
	_, kafka := s.Cluster(slog.New(slog.DiscardHandler))
	_, account := s.Account("")
	_, any := s.Run("name it")
	for flag, err := range map[string]error{
		"; or give --api-url and --api-key":          api,
		"; or name the brokers with --kafka-brokers": kafka,
		"; or give --account":                        account,
		"; or name it":                               any,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "no service has run in "+s.DataDir) ||
			!strings.HasSuffix(err.Error(), flag) {
			t.Errorf("%v, want that no service has run in the folder%s", err, flag)
		}
	}
}

// A broker whose name doesn't resolve must be reported at once, like every broker that cannot be
// reached.
func TestABrokerOfAnUnknownNameIsReported(t *testing.T) {
	s := config.Service{DataDir: t.TempDir()}
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.RegisterKafka(f)
	const unknown = "no-such-host.invalid:9092"
	if err := f.Set("kafka-brokers", unknown); err != nil {
		t.Fatal(err)
	}
	_, err := s.Cluster(slog.New(slog.DiscardHandler))
	var unreachable *kafka.UnreachableError
	var name *net.DNSError
	if !errors.As(err, &unreachable) || !slices.Equal(unreachable.Brokers, []string{unknown}) ||
		!errors.As(err, &name) {
		t.Errorf("the error is %v", err)
	}
}
