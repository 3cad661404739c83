package kafkatest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/internal/keys"
)

// Admin is the brokers' own user, which has all permissions.
const Admin = "admin"

type security struct {
	ca       *keys.CA
	clients  *ClientCA
	keyStore string // PEM: the brokers' key and certificate
	users    []string
}

func newSecurity(dir string, users []string) (*security, error) {
	ca, err := keys.LoadOrCreateCA(filepath.Join(dir,
		"secrets"), filepath.Join(dir, "ca.pem"), time.Now)
	if err != nil {
		return nil, err
	}
	s := &security{
		ca:       ca,
		keyStore: filepath.Join(dir, "secrets", "broker.pem"),
		users:    append([]string{Admin}, users...),
	}
	if s.clients, err = NewClientCA(filepath.Join(dir, "clients-ca.pem")); err != nil {
		return nil, err
	}
	certificate, err := ca.GetCertificate(nil)
	if err != nil {
		return nil, fmt.Errorf("issuing the brokers' certificate: %w", err)
	}
	return s, writeKeyStore(s.keyStore, certificate)
}

func writeKeyStore(path string, c *tls.Certificate) error {
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for _, der := range c.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return os.WriteFile(path, text, 0o600)
}

// Password returns a user's password.
func Password(user string) string { return "secret-of-" + user }

// Token returns an unsecured OAUTHBEARER token (RFC 7515, appendix A.5), which the test brokers
// accept.
func Token(user string, now time.Time) string {
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // cannot fail: a map of strings and numbers
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	claims := map[string]any{"sub": user, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	return part(map[string]any{"alg": "none"}) + "." + part(claims) + "."
}

// properties make clients and brokers log in over TLS with SASL PLAIN, SCRAM or OAUTHBEARER.
// Operations without an ACL are denied. The controllers' listener has no users: it is bound to
// loopback, and only controllers use it.
func (s *security) properties() map[string]string {
	var login strings.Builder
	fmt.Fprintf(&login,
		"org.apache.kafka.common.security.plain.PlainLoginModule required username=%q password=%q",
		Admin, Password(Admin))
	for _, user := range s.users {
		fmt.Fprintf(&login, " user_%s=%q", user, Password(user))
	}
	login.WriteString(";")
	scram := fmt.Sprintf("org.apache.kafka.common.security.scram.ScramLoginModule required "+
		"username=%q password=%q;",
		Admin, Password(Admin))
	listener := "listener.name." + strings.ToLower(clientListener) + "."
	mutual := "listener.name." + strings.ToLower(mutualListener) + "."
	bearer := fmt.Sprintf("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "+
		"required "+
		"unsecuredLoginStringClaim_sub=%q;", Admin)
	return map[string]string{
		listener + "sasl.enabled.mechanisms":        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
		listener + "plain.sasl.jaas.config":         login.String(),
		listener + "scram-sha-256.sasl.jaas.config": scram,
		listener + "scram-sha-512.sasl.jaas.config": scram,
		listener + "oauthbearer.sasl.jaas.config":   bearer,
		mutual + "ssl.client.auth":                  "required",
		mutual + "ssl.truststore.type":              "PEM",
		mutual + "ssl.truststore.location":          s.clients.CertFile(),
		"sasl.mechanism.inter.broker.protocol":      "PLAIN",
		"ssl.keystore.type":                         "PEM",
		"ssl.keystore.location":                     s.keyStore,
		"ssl.truststore.type":                       "PEM",
		"ssl.truststore.location":                   s.ca.CertFile(),
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer." +
			"StandardAuthorizer",
		"allow.everyone.if.no.acl.found": "false",
		"super.users":                    "User:" + Admin + ";User:ANONYMOUS",
	}
}
