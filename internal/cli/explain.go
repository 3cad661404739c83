package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/api/client"
)

// Explain formats an error for the terminal: a refusal of the API by the flags that its
// fields came from, and a dead connection with what to do.
func Explain(err error, flags *pflag.FlagSet) string {
	text := withoutPackages(err)
	var refused *client.Problem
	var asking *url.Error
	var dialing *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &refused):
		return strings.Replace(text, refused.Error(), refusal(refused, flags), 1)
	case errors.As(err, &asking):
		said := "nothing can be asked at " + base(asking.URL) + ": " + cause(asking.Err, base(asking.URL))
		return strings.Replace(strings.Replace(text, "asking the API: ", "", 1), asking.Error(), said, 1)
	case flags.Lookup("kafka-brokers") != nil && isLoginFault(err):
		return text + ": " + loginAdvice(flags)
	case errors.As(err, &dialing) && dialing.Op == "dial" && dialing.Addr != nil:
		said := "nothing can be asked at " + dialing.Addr.String() + ": " +
			cause(dialing, dialing.Addr.String())
		return strings.Replace(strings.Replace(text, "unable to dial: ", "", 1), dialing.Error(), said, 1)
	case errors.As(err, &dialing) && errors.As(err, &name):
		said := fmt.Sprintf("the name %s does not resolve: is it the right one?", name.Name)
		return strings.Replace(strings.Replace(text, "unable to dial: ", "", 1), dialing.Error(), said, 1)
	}
	return text
}

// packages are those whose errors begin with their name, which is for logs and is removed
// for people.
var packages = []string{
	"api", "apiserver", "broker", "client", "commands", "directory", "egress", "engine",
	"follower", "horizon", "lake", "ledger", "mailer", "mirror", "projections", "receiver", "rpc",
	"schemas", "sealing", "sim", "streams", "telemetry", "topology", "trial",
}

// withoutPackages returns the text of an error without the names of packages that it, or
// any error that it wraps, begins with.
func withoutPackages(err error) string {
	text := err.Error()
	var strip func(error)
	strip = func(err error) {
		said := err.Error()
		if name, rest, is := strings.Cut(said, ": "); is && slices.Contains(packages, name) {
			text = strings.Replace(text, said, rest, 1)
		}
		switch e := err.(type) { //nolint:errorlint // the levels are walked one by one
		case interface{ Unwrap() error }:
			if next := e.Unwrap(); next != nil {
				strip(next)
			}
		case interface{ Unwrap() []error }:
			for _, next := range e.Unwrap() {
				strip(next)
			}
		}
	}
	strip(err)
	return text
}

// isLoginFault reports whether brokers refused a login, or closed the connection: they do
// that if a login is missing, if TLS is missing, and if TLS is not expected.
func isLoginFault(err error) bool {
	return errors.As(err, new(*kgo.ErrFirstReadEOF)) ||
		errors.Is(err, kerr.SaslAuthenticationFailed) ||
		errors.Is(err, kerr.IllegalSaslState) || errors.Is(err, kerr.UnsupportedSaslMechanism)
}

// loginAdvice returns what to do about a refused login, depending on the flags.
func loginAdvice(flags *pflag.FlagSet) string {
	given := func(name string) bool { return flags.Changed(name) }
	advice := "the brokers hung up or refused the login: "
	switch {
	case given("kafka-user"):
		advice += "are --kafka-user, its password and --kafka-sasl right"
	case given("kafka-token-file"):
		advice += "is the token of --kafka-token-file right, and not expired"
	case given("kafka-cert-file"):
		advice += "is the certificate of --kafka-cert-file one that they take"
	default:
		advice += "if they want one, give --kafka-user and --kafka-password-file (--kafka-sasl names " +
			"the mechanism)"
	}
	for _, name := range []string{"kafka-tls", "kafka-ca-file", "kafka-cert-file"} {
		if given(name) {
			return advice + "; is this their address for TLS?"
		}
	}
	return advice +
		"; if they speak TLS, give --kafka-tls, or --kafka-ca-file with the file of their authority"
}

// base returns the part of an address that was given as a flag.
func base(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the address"
	}
	return u.Scheme + "://" + u.Host
}

// cause returns why a connection failed, and what to do.
func cause(err error, address string) string {
	var name *net.DNSError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: is the service running, and is this its address?"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "it does not speak TLS: the address begins with http://"
	case errors.As(err, &unknown):
		return "its certificate is of an authority that is not trusted here: name the authority's file " +
			"with --ca-file"
	case errors.As(err, &host), errors.As(err, &invalid):
		return err.Error() + ": give the name that the certificate is for"
	case errors.As(err, &name):
		return fmt.Sprintf("the name %s does not resolve", name.Name)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time"
	}
	return strings.ReplaceAll(err.Error(), address, "it")
}

// flagsOf maps fields of the API's bodies and parameters of its lists to their flags, where
// the names differ.
var flagsOf = map[string]string{
	"walletAddress": "wallet",
	"endpointId":    "endpoint", "watchId": "watch", "assets": "asset", "amountRule": "amount",
	"memoRule": "memo", "senderAllowlist": "sender", "eventTypes": "event-type", "headers": "header",
	"rateLimitPerSecond": "rate-limit", "graceSeconds": "grace", "allowedCidrs": "allow-cidr",
}

// refusal formats each fault with its flag.
func refusal(p *client.Problem, flags *pflag.FlagSet) string {
	if len(p.Errors) == 0 {
		text := p.Detail
		if p.Status == http.StatusUnauthorized {
			text += " The key is that of --api-key, of the variable " + Variable("api-key") +
				" or of the data folder."
		}
		if p.Status >= http.StatusInternalServerError {
			text += " (" + p.Code + ", request " + p.RequestID + ")"
		}
		return text
	}
	var lines []string
	for _, f := range p.Errors {
		lines = append(lines,
			place(f, flags)+strings.TrimPrefix(f.Detail, strings.TrimPrefix(f.Pointer, "/")+" "))
	}
	return strings.Join(lines, "\n")
}

// place returns the flag of a fault, or the field if there is none.
func place(f client.Fault, flags *pflag.FlagSet) string {
	field, inside := f.Parameter, ""
	if field == "" {
		field, inside, _ = strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	}
	if field == "" {
		return ""
	}
	name, mapped := flagsOf[field]
	if !mapped {
		name = field
	}
	if flags.Lookup(name) == nil {
		return strings.TrimSuffix(field+"/"+inside, "/") + ": "
	}
	given := "--" + name
	if values, ok := flags.Lookup(name).Value.(pflag.SliceValue); ok {
		given += nth(values.GetSlice(), inside)
	}
	return given + ": "
}

// nth returns the one of several values that a fault is in.
func nth(values []string, inside string) string {
	index, _, _ := strings.Cut(inside, "/")
	for i, value := range values {
		if fmt.Sprint(i) == index {
			return fmt.Sprintf(" %q", value)
		}
	}
	return ""
}
