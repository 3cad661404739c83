package streams

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The mechanisms of SASL that a Cluster may use. PLAIN shows the password to whoever
// answers; the others show that it is known.
const (
	SASLPlain       = "PLAIN"
	SASLScramSHA256 = "SCRAM-SHA-256"
	SASLScramSHA512 = "SCRAM-SHA-512"
)

// SASL is how clients prove to the brokers who they are. Its zero value is a cluster
// that does not ask.
type SASL struct {
	Mechanism string // one of the constants; empty: no SASL
	User      string
	Password  string
}

// String keeps the password out of messages.
func (s SASL) String() string { return s.Mechanism + " " + s.User }

// GoString is String, for %#v.
func (s SASL) GoString() string { return s.String() }

// Check names what is wrong.
func (s SASL) Check() error {
	switch {
	case s == SASL{}:
		return nil
	case s.Mechanism != SASLPlain && s.Mechanism != SASLScramSHA256 && s.Mechanism != SASLScramSHA512:
		return fmt.Errorf("the SASL mechanism %q must be %s, %s or %s", s.Mechanism, SASLPlain, SASLScramSHA256, SASLScramSHA512)
	case s.User == "" || s.Password == "":
		return fmt.Errorf("the SASL mechanism %s needs a user and a password", s.Mechanism)
	}
	return nil
}

// Option is the SASL of a Kafka client, none for the zero value. It must have passed
// Check.
func (s SASL) Option() []kgo.Opt {
	switch s.Mechanism {
	case SASLPlain:
		return []kgo.Opt{kgo.SASL(plain.Auth{User: s.User, Pass: s.Password}.AsMechanism())}
	case SASLScramSHA256:
		return []kgo.Opt{kgo.SASL(scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism())}
	case SASLScramSHA512:
		return []kgo.Opt{kgo.SASL(scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism())}
	}
	return nil
}
