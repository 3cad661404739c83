package kafka

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

// The SASL mechanisms that a Cluster may use. PLAIN and OAUTHBEARER send the password or token to
// any server that answers, so they require TLS. SCRAM only proves that both sides know the
// password.
const (
	SASLPlain       = "PLAIN"
	SASLScramSHA256 = "SCRAM-SHA-256"
	SASLScramSHA512 = "SCRAM-SHA-512"
	SASLOAuthBearer = "OAUTHBEARER"
)

// SASL configures how clients authenticate to the brokers. The zero value means no authentication.
// Files are read at each login, so that they can change while the program runs.
type SASL struct {
	Mechanism string // one of the constants; empty: no SASL
	User      string
	Password  string
	// PasswordFile holds the password, instead of Password.
	PasswordFile string
	// TokenFile holds the token of OAUTHBEARER.
	TokenFile string
}

// String leaves the password out.
func (s SASL) String() string { return s.Mechanism + " " + s.User }

// GoString is String, for %#v.
func (s SASL) GoString() string { return s.String() }

// Check returns an error that names the invalid setting.
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

// password returns the current password.
func (s SASL) password() (string, error) {
	if s.PasswordFile != "" {
		return readSecret(s.PasswordFile)
	}
	return s.Password, nil
}

// Option returns the client option, or no option for the zero value. The settings must have passed
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

// bearer is OAUTHBEARER with an error that says why a token was refused: brokers send the reason as
// a challenge (RFC 7628, section 3.2.2), which the wrapped mechanism only reports as unexpected.
type bearer struct{ sasl.Mechanism }

func (b bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := b.Mechanism.Authenticate(ctx, host)
	return bearerSession{session}, first, err
}

type bearerSession struct{ sasl.Session }

func (s bearerSession) Challenge(said []byte) (done bool, answer []byte, err error) {
	const most = 200 // of a broker's message
	if len(said) > 0 {
		return false, nil, fmt.Errorf("the broker refuses the token of OAUTHBEARER: %.*q", most, said)
	}
	return s.Session.Challenge(said)
}
