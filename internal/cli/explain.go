package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
)

// Explain formats an error for the terminal. It names the flags that caused an API error. For a
// connection failure it shows the address, the cause and what to do.
func Explain(err error, flags *pflag.FlagSet) string {
	text := withoutPackages(err)
	var refused *client.Problem
	var asking *url.Error
	var unreachable unreachedError
	var dialing *net.OpError
	switch {
	case errors.As(err, &refused):
		return strings.Replace(text, refused.Error(), refusal(refused, flags), 1)
	case errors.As(err, &asking) && errors.Is(asking, context.Canceled):
		return strings.Replace(text, asking.Error(), "interrupted", 1)
	case errors.As(err, &asking):
		said := "cannot connect to " + base(asking.URL) + ": " + cause(asking.Err, base(asking.URL))
		return strings.Replace(strings.Replace(text, "calling the API: ", "", 1), asking.Error(), said, 1)
	case flags.Lookup("kafka-brokers") != nil && isLoginFault(err):
		return replace(text, loginFault(err), loginAdvice(err, flags))
	case errors.As(err, &unreachable):
		return replace(text, unreachable, noBroker(unreachable))
	case errors.As(err, &dialing) && dialing.Op == "dial":
		said := cause(dialing, "")
		if dialing.Addr != nil {
			said = "cannot connect to " + dialing.Addr.String() + ": " +
				cause(dialing, dialing.Addr.String())
		}
		return replace(text, dialing, said)
	case errors.Is(err, context.Canceled):
		return strings.Replace(text, context.Canceled.Error(), "interrupted", 1)
	}
	return text
}

var requests = regexp.MustCompile(`asking for the (offsets of topic [^ :]+|brokers): |` +
	`no usable response: |context deadline exceeded; the last try: |unable to dial: `)

// replace replaces the text of an inner error and removes the failed request before it. The context
// of the command stays.
func replace(text string, inner error, said string) string {
	before, after, found := strings.Cut(text, withoutPackages(inner))
	if !found {
		return said
	}
	return requests.ReplaceAllString(before, "") + said + after
}

// unreachedError reports that none of the brokers could be reached, with a cause per broker.
type unreachedError interface {
	error
	Unreached() (brokers []string, causes []error)
}

// noBroker lists the unreachable brokers, grouped by cause.
func noBroker(e unreachedError) string {
	brokers, faults := e.Unreached()
	var causes []string
	with := make(map[string][]string)
	for i, broker := range brokers {
		why := brokerCause(faults[i], broker)
		if with[why] == nil {
			causes = append(causes, why)
		}
		with[why] = append(with[why], broker)
	}
	said := "no broker can be reached"
	for i, why := range causes {
		if i > 0 {
			said += ";\nnor"
		}
		said += " at " + strings.Join(with[why], ", ") + ": " + why
	}
	return said
}

func brokerCause(err error, address string) string {
	var dialing *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &name), errors.Is(err, syscall.ECONNREFUSED),
		errors.As(err, &dialing) && dialing.Op == "dial":
		return cause(err, address)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "a server listens there but doesn't respond like a Kafka broker; " +
			"is this a broker's address?"
	case errors.Is(err, io.EOF):
		return "the broker closed the connection, which means a failed login or missing TLS; check " +
			"--kafka-user, its password, --kafka-sasl and --kafka-tls"
	case strings.Contains(err.Error(), "tls alert record"): // kgo has no error type for this
		return "the broker requires TLS: set --kafka-ca-file, or --kafka-tls if this machine " +
			"trusts its certificate authority"
	}
	return cause(errors.New(strings.TrimPrefix(withoutPackages(err), "unable to dial: ")), address)
}

var packages = []string{
	"api", "broker", "client", "commands", "console", "directory", "domain", "egress",
	"engine", "follower", "lake", "ledger", "mailer", "mirror", "orphans", "portal",
	"projections", "receipt", "receiver", "rpc", "schemas", "sealing", "signing", "sim",
	"streams", "telemetry", "topology", "transfer", "trial",
}

// withoutPackages returns the text of an error without the package names at its start or at the
// start of the errors that it wraps.
func withoutPackages(err error) string {
	text := err.Error()
	var strip func(error)
	strip = func(err error) {
		said := err.Error()
		if name, rest, is := strings.Cut(said, ": "); is && slices.Contains(packages, name) {
			text = strings.Replace(text, said, rest, 1)
		}
		switch e := err.(type) { //nolint:errorlint // visits every level
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

// isLoginFault reports whether brokers rejected a login or closed the connection. They close it if
// a login or TLS is missing, or if they don't support TLS.
func isLoginFault(err error) bool {
	return errors.As(err, new(*kgo.ErrFirstReadEOF)) ||
		errors.Is(err, kerr.SaslAuthenticationFailed) ||
		errors.Is(err, kerr.IllegalSaslState) || errors.Is(err, kerr.UnsupportedSaslMechanism)
}

// loginFault returns the inner error that describes the rejected login.
func loginFault(err error) error {
	var unreachable unreachedError
	var hungUp *kgo.ErrFirstReadEOF
	var refused *kerr.Error
	switch {
	case errors.As(err, &unreachable):
		return unreachable
	case errors.As(err, &hungUp):
		return hungUp
	case errors.As(err, &refused):
		return refused
	}
	return err
}

func loginAdvice(err error, flags *pflag.FlagSet) string {
	given := func(name string) bool { return flags.Changed(name) }
	advice := "the brokers rejected the login: "
	if errors.As(err, new(*kgo.ErrFirstReadEOF)) {
		advice = "the brokers closed the connection: "
	}
	switch {
	case given("kafka-user"):
		advice += "check --kafka-user, its password and --kafka-sasl"
	case given("kafka-token-file"):
		advice += "check that the token in --kafka-token-file is valid and has not expired"
	case given("kafka-cert-file"):
		advice += "check that they accept the certificate in --kafka-cert-file"
	default:
		advice += "if they require a login, set --kafka-user and --kafka-password-file " +
			"(and --kafka-sasl for another mechanism)"
	}
	for _, name := range []string{"kafka-tls", "kafka-ca-file", "kafka-cert-file"} {
		if given(name) {
			return advice + "; is this their TLS port?"
		}
	}
	return advice +
		"; if they require TLS, set --kafka-tls, or --kafka-ca-file for a private certificate authority"
}

func base(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the address"
	}
	return u.Scheme + "://" + u.Host
}

func cause(err error, address string) string {
	var name *net.DNSError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused; is the service running, and is this its address?"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "the server doesn't use TLS; use an http:// address"
	case errors.As(err, &unknown):
		return "the server's certificate is from an unknown authority; set --ca-file to the " +
			"authority's certificate"
	case errors.As(err, &host), errors.As(err, &invalid):
		return err.Error() + "; use the host name in the certificate"
	case errors.As(err, &name):
		return fmt.Sprintf("the host name %s does not resolve; is it correct?", name.Name)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	}
	return strings.ReplaceAll(err.Error(), address, "it")
}

func refusal(p *client.Problem, flags *pflag.FlagSet) string {
	var lines []string
	for _, f := range p.Errors {
		detail := strings.TrimPrefix(f.Detail, strings.TrimPrefix(f.Pointer, "/")+" ")
		if flag := flagOf(f, flags); flag != nil && f.Code == problem.FaultEndpointNotFound {
			detail = noEndpoint(flag.Value.String())
		}
		lines = append(lines, place(f, flags)+withFlags(f, detail, flags))
	}
	switch {
	case len(lines) > 0:
		return strings.Join(lines, "\n")
	case p.Status == http.StatusUnauthorized:
		return keyRefused(flags)
	case p.Status == http.StatusNotFound && named(p, flags) != "":
		id := named(p, flags)
		return strings.TrimSuffix(p.Detail, ".") + ": " + id + otherKind(p.Detail, id)
	case p.Status >= http.StatusInternalServerError:
		return p.Detail + " (" + p.Code + ", request " + p.RequestID + ")"
	}
	return p.Detail
}

func keyRefused(flags *pflag.FlagSet) string {
	key, dir := flags.Lookup("api-key"), flags.Lookup("data-dir")
	switch {
	case key != nil && key.Changed:
		return "the service rejected the API key from " + originOf(key) + "; is it complete, for this " +
			"service, and neither revoked nor expired? To create another, use `lumenhook keys create`"
	case dir != nil:
		return "the service rejected the API key of the data folder " + dir.Value.String() +
			"; was it revoked? To use another key, set " + Variable("api-key")
	}
	return "the service rejected the API key"
}

var prefixes = map[string]string{
	"endpoint": "ep_",
	"watch":    "wat_",
	"event":    "evt_",
	"key":      "key_",
}

// otherKind explains why an id cannot be found: it belongs to another kind of object, or is
// truncated.
func otherKind(detail, id string) string {
	for _, word := range words.FindAllString(detail, -1) {
		prefix := prefixes[word]
		if prefix == "" || isID(prefix, id) {
			continue
		}
		for kind, other := range prefixes {
			if isID(other, id) {
				return fmt.Sprintf(" is the id of %s; %s's begins with %s", one(kind), one(word), prefix)
			}
		}
		return " (must be an id: " + prefix + " and 26 characters)"
	}
	return ""
}

// noEndpoint explains that the endpoint doesn't exist, and which command to use. The API's own text
// names requests instead.
func noEndpoint(id string) string {
	return "names no endpoint of your account: " + id + cmp.Or(otherKind("endpoint", id),
		"; `lumenhook endpoints list` shows yours, and `lumenhook endpoints create` creates one")
}

func one(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

func isID(prefix, id string) bool {
	return strings.HasPrefix(id, prefix) && len(id) == len(prefix)+26
}

// named returns the id that the API did not find: the argument, or the value of the flag that the
// error mentions.
func named(p *client.Problem, flags *pflag.FlagSet) string {
	if flags.NArg() == 1 {
		return flags.Arg(0)
	}
	for _, name := range []string{"watch", "endpoint"} {
		if flag := flags.Lookup(name); flag != nil && flag.Changed && strings.Contains(p.Detail, name) {
			return flag.Value.String()
		}
	}
	return ""
}

var words = regexp.MustCompile(`\w+`)

// withFlags replaces the API's name for the other end of a range with its flag.
func withFlags(f client.Fault, detail string, flags *pflag.FlagSet) string {
	if f.Code != problem.FaultRangeIsEmpty {
		return detail
	}
	return words.ReplaceAllStringFunc(detail, func(word string) string {
		if flag := flagFor(word, flags); flag != nil {
			return "--" + flag.Name
		}
		return word
	})
}

// isInvalid reports whether the API rejected a flag's value that is invalid regardless of the
// service's state.
func isInvalid(err error, flags *pflag.FlagSet) bool {
	var refused *client.Problem
	if !errors.As(err, &refused) {
		return false
	}
	return slices.ContainsFunc(refused.Errors, func(f client.Fault) bool {
		given := flagOf(f, flags)
		return given != nil && given.Changed && f.Code != problem.FaultEndpointNotFound &&
			f.Code != problem.CodeSSRFBlocked && f.Code != problem.FaultCannotChange
	})
}

func place(f client.Fault, flags *pflag.FlagSet) string {
	field, inside := fieldOf(f)
	if field == "" {
		return ""
	}
	flag := flagOf(f, flags)
	if flag == nil {
		return strings.TrimSuffix(field+"/"+inside, "/") + ": "
	}
	given := "--" + flag.Name
	if values, ok := flag.Value.(pflag.SliceValue); ok {
		given += nth(values.GetSlice(), inside)
	}
	return given + ": "
}

func fieldOf(f client.Fault) (field, inside string) {
	if f.Parameter != "" {
		return f.Parameter, ""
	}
	field, inside, _ = strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	return field, inside
}

func flagOf(f client.Fault, flags *pflag.FlagSet) *pflag.Flag {
	field, _ := fieldOf(f)
	return flagFor(field, flags)
}

func flagFor(field string, flags *pflag.FlagSet) *pflag.Flag {
	return flags.Lookup(cmp.Or(flagNames[field], flagOfName(field)))
}

func nth(values []string, inside string) string {
	index, _, _ := strings.Cut(inside, "/")
	for i, value := range values {
		if fmt.Sprint(i) == index {
			return fmt.Sprintf(" %q", value)
		}
	}
	return ""
}
