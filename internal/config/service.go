package config

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Service is where a service is. Its zero value has no folder and no address.
type Service struct {
	DataDir    string
	Kafka      Kafka
	ClickHouse ClickHouse

	apiURL string
	apiKey string
	caFile string
}

// Register adds the flag of the data folder. A process of `lumenhook serve` does not have it: its
// folder holds only state.
func (s *Service) Register(f *pflag.FlagSet) {
	f.StringVar(&s.DataDir, "data-dir", ".lumenhook", "data folder of the running service")
	cli.NotShared(f, "data-dir")
}

// RegisterAPI adds the flags of commands that use the API.
func (s *Service) RegisterAPI(f *pflag.FlagSet) {
	f.StringVar(&s.apiURL, "api-url", "", "address of the API, instead of the data folder's")
	f.StringVar(&s.apiKey, "api-key", "",
		"API key, instead of the data folder's (better given as LUMENHOOK_API_KEY)")
	f.StringVar(&s.caFile, "ca-file", "", "PEM file of further authorities that the API's "+
		"certificate may be of; the data folder's when it is not given")
}

// NamesAPI reports whether a flag names the API, and not a data folder.
func (s *Service) NamesAPI() bool { return s.apiURL != "" }

// RegisterKafka adds the flags of commands that read topics or submit commands, which the
// files of `lumenhook serve` set too.
func (s *Service) RegisterKafka(f *pflag.FlagSet) {
	s.Kafka.Register(f)
	cli.ShareConfig(f)
}

// NamedCluster returns the connection settings of the brokers that flags name; none if they
// name none. The Kafka client logs nothing: its errors are returned.
func (s *Service) NamedCluster(logger *slog.Logger) (kafka.Cluster, error) {
	c, err := s.Kafka.Cluster("lumenhook-cli", logger)
	c.Quiet = true
	return c, cli.Usage(err)
}

// Cluster returns how Kafka is reached, or an error if nothing listens there.
func (s *Service) Cluster(logger *slog.Logger) (kafka.Cluster, error) {
	c, err := s.addressedCluster(logger)
	if err != nil {
		return c, err
	}
	return c, c.Listening(context.Background())
}

// addressedCluster returns how Kafka is reached, by flags or by the data folder.
func (s *Service) addressedCluster(logger *slog.Logger) (kafka.Cluster, error) {
	c, err := s.NamedCluster(logger)
	if err != nil || len(c.Brokers) > 0 {
		return c, err
	}
	run, err := s.Run("name the brokers with --kafka-brokers")
	if err != nil {
		return c, err
	}
	c.Brokers, c.SASL, c.TLS = run.KafkaBrokers, run.Kafka.SASL(), kafka.TLS{}
	return c, nil
}

// Run returns the data folder's run.json, if no flag names the service. The error names the
// flag that would do: or.
func (s *Service) Run(or string) (runfile.File, error) {
	run, err := runfile.Read(s.DataDir)
	if err != nil {
		return runfile.File{}, fmt.Errorf("%w; or %s", err, or)
	}
	return run, nil
}

// IsFoldersKey reports whether an id belongs to the API key in the data folder.
func (s *Service) IsFoldersKey(id string) bool {
	run, err := runfile.Read(s.DataDir)
	return err == nil && run.APIKeyID == id
}

// IsLive reports whether the service is on the public network, as far as its data folder
// says.
func (s *Service) IsLive() bool {
	run, err := runfile.Read(s.DataDir)
	return err == nil && run.Stellar.NetworkPassphrase == network.PublicNetworkPassphrase
}

// Account returns the account that --account names, or the data folder's.
func (s *Service) Account(id string) (string, error) {
	if id == "" {
		run, err := s.Run("give --account")
		return run.AccountID, err
	}
	if !domain.IsID(domain.AccountPrefix, id) {
		return "", cli.Usage(fmt.Errorf("--account %q: must be acc_ and 26 characters", id))
	}
	return id, nil
}
