package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Kafka holds the flags for connecting to Kafka: brokers, prefix, SASL and TLS. Files are read at
// each login and connection, so you can replace them while the program runs.
type Kafka struct {
	Brokers []string // empty: the caller uses other brokers
	Prefix  string

	flags Flags
	sasl  kafka.SASL
	tls   kafka.TLS
}

// Register adds the flags.
func (k *Kafka) Register(f *pflag.FlagSet) {
	k.flags.Group(f, "Kafka", "",
		Value("kafka-brokers", &k.Brokers, nil,
			"Kafka brokers to connect to, as HOST:PORT, instead of the data folder's"),
		Value("topic-prefix", &k.Prefix, "lumenhook.",
			"prefix for the names of topics, groups and transactional ids"),
		Value("kafka-sasl", &k.sasl.Mechanism, "", "SASL mechanism: PLAIN, SCRAM-SHA-256, "+
			"SCRAM-SHA-512 or OAUTHBEARER (default SCRAM-SHA-256 with --kafka-user, OAUTHBEARER with "+
			"--kafka-token-file)").
			Of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
		Value("kafka-user", &k.sasl.User, "",
			"user name for --kafka-brokers; leave empty if you don't log in with a password"),
		Value("kafka-password", &k.sasl.Password, "", "password for --kafka-brokers; for security, "+
			"use LUMENHOOK_KAFKA_PASSWORD or a file instead").Hidden(),
		Value("kafka-password-file", &k.sasl.PasswordFile, "",
			"file that contains the password for --kafka-brokers; read at each login"),
		Value("kafka-token-file", &k.sasl.TokenFile, "",
			"file that contains the token for OAUTHBEARER; read at each login"),
		Value("kafka-tls", &k.tls.Enabled, false,
			"use TLS for --kafka-brokers; implied by --kafka-ca-file and --kafka-cert-file"),
		Value("kafka-ca-file", &k.tls.CAFile, "",
			"PEM file with the certificate authorities to trust for the brokers (default: the system's)"),
		Value("kafka-cert-file", &k.tls.CertFile, "",
			"PEM file with the client certificate for mutual TLS; read for each connection"),
		Value("kafka-key-file", &k.tls.KeyFile, "",
			"PEM file with the private key for --kafka-cert-file"))
	cli.ImpliedBy(f, "kafka-tls", "kafka-ca-file", "kafka-cert-file")
}

// Cluster returns the connection settings. The error reports all invalid flags.
func (k *Kafka) Cluster(clientID string, l *slog.Logger) (kafka.Cluster, error) {
	c := kafka.Cluster{
		Brokers:  k.Brokers,
		Prefix:   k.Prefix,
		ClientID: clientID,
		Logger:   l,
		SASL:     k.sasl,
		TLS:      k.tls,
	}
	switch {
	case c.SASL.TokenFile != "":
		c.SASL.Mechanism = cmp.Or(c.SASL.Mechanism, kafka.SASLOAuthBearer)
	case c.SASL.User != "":
		c.SASL.Mechanism = cmp.Or(c.SASL.Mechanism, kafka.SASLScramSHA256)
	}
	c.TLS.Enabled = k.tls != kafka.TLS{}
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

// checkBroker rejects addresses without a port, because the Kafka client would add a default.
func checkBroker(address string) error {
	host, port, err := net.SplitHostPort(address)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || host == "" ||
		n == 0 {
		return fmt.Errorf("--kafka-brokers %q: must be HOST:PORT, such as kafka:9092", address)
	}
	return nil
}

// ClickHouse holds the flags for connecting to ClickHouse: address and login. The address turns TLS
// on. Errors never repeat a value that may be a password.
type ClickHouse struct {
	DSN     string // empty: the caller uses another one
	Address string // DSN combined with the other flags; set by Check

	flags          Flags
	user, password string
}

// Register adds the flags. dsnUsage is the help text of the address.
func (s *ClickHouse) Register(f *pflag.FlagSet, dsnUsage string) {
	s.flags.Group(f, "ClickHouse", "",
		Value("clickhouse-dsn", &s.DSN, "", dsnUsage).Hidden(),
		Value("clickhouse-user", &s.user, "",
			"ClickHouse user, instead of the user in --clickhouse-dsn"),
		Value("clickhouse-password", &s.password, "", "ClickHouse password, instead of the password "+
			"in --clickhouse-dsn; for security, use LUMENHOOK_CLICKHOUSE_PASSWORD instead").Hidden())
}

// errBadDSN shows nothing of the DSN or the driver's error, because both may contain a password.
var errBadDSN = errors.New("--clickhouse-dsn: must be like " +
	"clickhouse://user:password@host:9000/lumenhook, with a database of 1 to 63 letters, " +
	"digits or underscores, readable certificate files, and nothing that another flag " +
	"also sets")

// Check returns all faults, and sets Address.
func (s *ClickHouse) Check() []error {
	if s.DSN == "" {
		if s.user+s.password == "" {
			return nil
		}
		return []error{errors.New("--clickhouse-user and --clickhouse-password need --clickhouse-dsn")}
	}
	address := s.with()
	if writer.CheckDSN(address) != nil {
		return []error{errBadDSN}
	}
	s.Address = address
	return nil
}

// with returns the DSN combined with the other flags.
func (s *ClickHouse) with() string {
	added := url.Values{}
	for name, value := range map[string]string{"username": s.user, "password": s.password} {
		if value != "" {
			added.Set(name, value)
		}
	}
	switch {
	case len(added) == 0:
		return s.DSN
	case strings.Contains(s.DSN, "?"):
		return s.DSN + "&" + added.Encode()
	}
	return s.DSN + "?" + added.Encode()
}
