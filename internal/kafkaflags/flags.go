// Package kafkaflags are the flags with which every command connects to Kafka: brokers,
// prefix, SASL and TLS. Each has its variable LUMENHOOK_….
//
// It hides how they are checked against each other. Files are read at each login and
// connection, so that what is in them can be renewed while the program runs.
package kafkaflags

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/streams"
)

// Flags are what was given.
type Flags struct {
	Brokers []string // none: the caller knows others
	Prefix  string

	sasl streams.SASL
	tls  streams.TLS
}

// Register adds the flags.
func (k *Flags) Register(f *pflag.FlagSet) { cli.Group(f, "Kafka", k.register) }

func (k *Flags) register(f *pflag.FlagSet) {
	f.StringSliceVar(&k.Brokers, "kafka-brokers", nil,
		"HOST:PORT of Kafka brokers, instead of the data folder's")
	f.StringVar(&k.Prefix, "topic-prefix", "lumenhook.",
		"what the names of topics, groups and transactional ids begin with")
	f.StringVar(&k.sasl.Mechanism, "kafka-sasl", "",
		"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER (default SCRAM-SHA-256 with --kafka-user, "+
			"OAUTHBEARER with --kafka-token-file)")
	f.StringVar(&k.sasl.User, "kafka-user", "",
		"user at --kafka-brokers; without one there is no login by password")
	f.StringVar(&k.sasl.Password, "kafka-password", "",
		"password at --kafka-brokers (better given as LUMENHOOK_KAFKA_PASSWORD or in a file)")
	f.StringVar(&k.sasl.PasswordFile, "kafka-password-file", "",
		"file of the password at --kafka-brokers; read at each login")
	f.StringVar(&k.sasl.TokenFile, "kafka-token-file", "",
		"file of the token for OAUTHBEARER; read at each login")
	f.BoolVar(&k.tls.Enabled, "kafka-tls", false,
		"speak TLS with --kafka-brokers; --kafka-ca-file and --kafka-cert-file imply it")
	f.StringVar(&k.tls.CAFile, "kafka-ca-file", "",
		"PEM file of the authorities that sign the brokers' certificates (default the system's)")
	f.StringVar(&k.tls.CertFile, "kafka-cert-file", "",
		"PEM file of the client's certificate, for mutual TLS; read at each connection")
	f.StringVar(&k.tls.KeyFile, "kafka-key-file", "", "PEM file of the key of --kafka-cert-file")
	cli.Secret(f, "kafka-password")
}

// Cluster returns the connection settings, or every fault at once.
func (k *Flags) Cluster(clientID string, l *slog.Logger) (streams.Cluster, error) {
	c := streams.Cluster{
		Brokers:  k.Brokers,
		Prefix:   k.Prefix,
		ClientID: clientID,
		Logger:   l,
		SASL:     k.sasl,
		TLS:      k.tls,
	}
	switch {
	case c.SASL.TokenFile != "":
		c.SASL.Mechanism = cmp.Or(c.SASL.Mechanism, streams.SASLOAuthBearer)
	case c.SASL.User != "":
		c.SASL.Mechanism = cmp.Or(c.SASL.Mechanism, streams.SASLScramSHA256)
	}
	files := k.tls
	files.Enabled = false
	c.TLS.Enabled = k.tls.Enabled || files != streams.TLS{}
	var faults []error
	for _, broker := range k.Brokers {
		faults = append(faults, checkBroker(broker))
	}
	if err := c.SASL.Check(); err != nil {
		faults = append(faults,
			fmt.Errorf("--kafka-sasl, --kafka-user, --kafka-password, --kafka-password-file, "+
				"--kafka-token-file: %w", err))
	}
	if err := c.TLS.Check(); err != nil {
		faults = append(faults,
			fmt.Errorf("--kafka-ca-file, --kafka-cert-file, --kafka-key-file: %w", err))
	}
	return c, errors.Join(faults...)
}

// checkBroker reports an address that is not of the form host:port. The Kafka client would
// add a port of its own.
func checkBroker(address string) error {
	host, port, err := net.SplitHostPort(address)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || host == "" ||
		n == 0 {
		return fmt.Errorf("--kafka-brokers %q: must be HOST:PORT, such as kafka:9092", address)
	}
	return nil
}
