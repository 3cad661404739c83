package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The mechanisms of SASL that a Cluster may use. PLAIN and OAUTHBEARER show the
// password or token to whoever answers, so they want TLS; SCRAM shows that the
// password is known.
const (
	SASLPlain       = "PLAIN"
	SASLScramSHA256 = "SCRAM-SHA-256"
	SASLScramSHA512 = "SCRAM-SHA-512"
	SASLOAuthBearer = "OAUTHBEARER"
)

// SASL is how clients prove to the brokers who they are. Its zero value is a cluster
// that does not ask. Files are read at each login, so that what is in them can be
// changed while the program runs.
type SASL struct {
	Mechanism string // one of the constants; empty: no SASL
	User      string
	Password  string
	// PasswordFile holds the password, in place of Password.
	PasswordFile string
	// TokenFile holds the token of OAUTHBEARER.
	TokenFile string
}

// String keeps the password out of messages.
func (s SASL) String() string { return s.Mechanism + " " + s.User }

// GoString is String, for %#v.
func (s SASL) GoString() string { return s.String() }

// Check names what is wrong.
func (s SASL) Check() error {
	switch s.Mechanism {
	case "":
		if s != (SASL{}) {
			return errors.New("a user, password or token needs a SASL mechanism")
		}
		return nil
	case SASLOAuthBearer:
		if s.TokenFile == "" || s.User != "" || s.Password != "" || s.PasswordFile != "" {
			return fmt.Errorf("the SASL mechanism %s needs the file of a token, and neither user nor "+
				"password", s.Mechanism)
		}
		_, err := readSecret(s.TokenFile)
		return err
	case SASLPlain, SASLScramSHA256, SASLScramSHA512:
		return s.checkPassword()
	}
	return fmt.Errorf("the SASL mechanism %q must be %s, %s, %s or %s",
		s.Mechanism, SASLPlain, SASLScramSHA256, SASLScramSHA512, SASLOAuthBearer)
}

func (s SASL) checkPassword() error {
	switch {
	case s.User == "" || (s.Password == "") == (s.PasswordFile == "") || s.TokenFile != "":
		return fmt.Errorf("the SASL mechanism %s needs a user, and a password or the file of one",
			s.Mechanism)
	case s.PasswordFile != "":
		_, err := readSecret(s.PasswordFile)
		return err
	}
	return nil
}

// password gives the password as it is now.
func (s SASL) password() (string, error) {
	if s.PasswordFile != "" {
		return readSecret(s.PasswordFile)
	}
	return s.Password, nil
}

// Option is the SASL of a Kafka client, none for the zero value. It must have passed
// Check.
func (s SASL) Option() []kgo.Opt {
	proof := func(context.Context) (scram.Auth, error) {
		password, err := s.password()
		return scram.Auth{User: s.User, Pass: password}, err
	}
	switch s.Mechanism {
	case SASLPlain:
		return []kgo.Opt{kgo.SASL(plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := s.password()
			return plain.Auth{User: s.User, Pass: password}, err
		}))}
	case SASLScramSHA256:
		return []kgo.Opt{kgo.SASL(scram.Sha256(proof))}
	case SASLScramSHA512:
		return []kgo.Opt{kgo.SASL(scram.Sha512(proof))}
	case SASLOAuthBearer:
		return []kgo.Opt{kgo.SASL(bearer{oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := readSecret(s.TokenFile)
			return oauth.Auth{Token: token}, err
		})})}
	}
	return nil
}

// bearer is OAUTHBEARER that says why a token was refused: brokers tell it as a
// challenge (RFC 7628, section 3.2.2), which the mechanism below only calls
// unexpected.
type bearer struct{ sasl.Mechanism }

func (b bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := b.Mechanism.Authenticate(ctx, host)
	return bearerSession{session}, first, err
}

type bearerSession struct{ sasl.Session }

func (s bearerSession) Challenge(said []byte) (done bool, answer []byte, err error) {
	const most = 200 // of what a broker says
	if len(said) > 0 {
		return false, nil, fmt.Errorf("the broker refuses the token of OAUTHBEARER: %.*q", most, said)
	}
	return s.Session.Challenge(said)
}
