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

// SASL mechanisms. PLAIN and OAUTHBEARER send the password or token to any server that answers, so
// they require TLS. SCRAM proves only that both sides know the password.
const (
	SASLPlain       = "PLAIN"
	SASLScramSHA256 = "SCRAM-SHA-256"
	SASLScramSHA512 = "SCRAM-SHA-512"
	SASLOAuthBearer = "OAUTHBEARER"
)

// SASL configures how clients authenticate to the brokers. The zero value means no authentication.
// Files are read at each login, so they may change while the program runs.
type SASL struct {
	Mechanism string // one of the constants, or empty for no SASL
	User      string
	Password  string
	// PasswordFile is an alternative to Password.
	PasswordFile string
	// TokenFile is a file with the OAUTHBEARER token.
	TokenFile string
}

// String returns the settings without the password.
func (s SASL) String() string { return s.Mechanism + " " + s.User }

// GoString keeps the password out of %#v.
func (s SASL) GoString() string { return s.String() }

// Check returns an error that names the invalid setting.
func (s SASL) Check() error {
	switch s.Mechanism {
	case "":
		if s != (SASL{}) {
			return errors.New("a user, password or token requires a SASL mechanism")
		}
		return nil
	case SASLOAuthBearer:
		if s.TokenFile == "" || s.User != "" || s.Password != "" || s.PasswordFile != "" {
			return fmt.Errorf("the SASL mechanism %s requires a token file, and no user or "+
				"password", s.Mechanism)
		}
		_, err := readSecret(s.TokenFile)
		return err
	case SASLPlain, SASLScramSHA256, SASLScramSHA512:
		return s.checkPassword()
	}
	return fmt.Errorf("unknown SASL mechanism %q (known: %s, %s, %s, %s)",
		s.Mechanism, SASLPlain, SASLScramSHA256, SASLScramSHA512, SASLOAuthBearer)
}

func (s SASL) checkPassword() error {
	switch {
	case s.User == "" || (s.Password == "") == (s.PasswordFile == "") || s.TokenFile != "":
		return fmt.Errorf("the SASL mechanism %s requires a user, and a password or a password file",
			s.Mechanism)
	case s.PasswordFile != "":
		_, err := readSecret(s.PasswordFile)
		return err
	}
	return nil
}

func (s SASL) password() (string, error) {
	if s.PasswordFile != "" {
		return readSecret(s.PasswordFile)
	}
	return s.Password, nil
}

// Option returns the client option, or none for the zero value. The settings must have passed
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

// bearer is OAUTHBEARER with errors that say why a token was rejected. Brokers send the reason as a
// challenge (RFC 7628, section 3.2.2), which the wrapped mechanism reports only as unexpected.
type bearer struct{ sasl.Mechanism }

func (b bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := b.Mechanism.Authenticate(ctx, host)
	return bearerSession{session}, first, err
}

type bearerSession struct{ sasl.Session }

func (s bearerSession) Challenge(said []byte) (done bool, answer []byte, err error) {
	const most = 200 // bytes
	if len(said) > 0 {
		return false, nil, fmt.Errorf("the broker refuses the token of OAUTHBEARER: %.*q", most, said)
	}
	return s.Session.Challenge(said)
}
