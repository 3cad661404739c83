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

// Explain formats an error for the terminal: a refusal of the API by the flags that its
// fields came from, and a dead connection by its address, one cause and what to do.
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
		return strings.Replace(text, asking.Error(), "it was interrupted", 1)
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
		return strings.Replace(text, context.Canceled.Error(), "it was interrupted", 1)
	}
	return text
}

// requests are what the Kafka client and ours say of the request that failed, which is of
// no use to who cannot reach a broker.
var requests = regexp.MustCompile(`asking for the (offsets of topic [^ :]+|brokers): |` +
	`no answer that counts: |context deadline exceeded; the last try: |unable to dial: `)

// replace replaces an inner error in the text of the one that wraps it, and leaves out which
// request met it. What the failure means to the command stays.
func replace(text string, inner error, said string) string {
	before, after, found := strings.Cut(text, withoutPackages(inner))
	if !found {
		return said
	}
	return requests.ReplaceAllString(before, "") + said + after
}

// unreachedError is an error of brokers, none of which can be reached; it has one cause for
// each.
type unreachedError interface {
	error
	Unreached() (brokers []string, causes []error)
}

// noBroker lists the addresses of brokers, those with the same cause together.
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

// brokerCause returns why one broker cannot be reached, and what to do.
func brokerCause(err error, address string) string {
	var dialing *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &name), errors.Is(err, syscall.ECONNREFUSED),
		errors.As(err, &dialing) && dialing.Op == "dial":
		return cause(err, address)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "something listens there, and does not answer as a broker does; " +
			"is this a broker's address?"
	case errors.Is(err, io.EOF):
		return "it hung up, as a broker does that refuses a login, or expects TLS: are --kafka-user, " +
			"its password, --kafka-sasl and --kafka-tls right?"
	case strings.Contains(err.Error(), "tls alert record"): // kgo has no type for it
		return "it speaks TLS: name its authorities with --kafka-ca-file, or give --kafka-tls where " +
			"this machine trusts them"
	}
	return cause(errors.New(strings.TrimPrefix(withoutPackages(err), "unable to dial: ")), address)
}

// packages are those whose errors begin with their name, which is for logs and is removed
// for people.
var packages = []string{
	"api", "broker", "client", "commands", "console", "directory", "domain", "egress",
	"engine", "follower", "lake", "ledger", "mailer", "mirror", "orphans", "portal",
	"projections", "receipt", "receiver", "rpc", "schemas", "sealing", "signing", "sim",
	"streams", "telemetry", "topology", "transfer", "trial",
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

// loginFault returns the inner error that describes a refused login.
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

// loginAdvice returns what the brokers did, and what to do, depending on the flags.
func loginAdvice(err error, flags *pflag.FlagSet) string {
	given := func(name string) bool { return flags.Changed(name) }
	advice := "the brokers refused the login: "
	if errors.As(err, new(*kgo.ErrFirstReadEOF)) {
		advice = "the brokers hung up: "
	}
	switch {
	case given("kafka-user"):
		advice += "are --kafka-user, its password and --kafka-sasl right"
	case given("kafka-token-file"):
		advice += "is the token of --kafka-token-file right, and not expired"
	case given("kafka-cert-file"):
		advice += "is the certificate of --kafka-cert-file one that they take"
	default:
		advice += "if they want a login, give --kafka-user and --kafka-password-file " +
			"(--kafka-sasl names the mechanism)"
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
		return "connection refused; is the service running, and is this its address?"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "it does not speak TLS: the address begins with http://"
	case errors.As(err, &unknown):
		return "its certificate is of an authority that is not trusted here: name the authority's file " +
			"with --ca-file"
	case errors.As(err, &host), errors.As(err, &invalid):
		return err.Error() + ": give the name that the certificate is for"
	case errors.As(err, &name):
		return fmt.Sprintf("the name %s does not resolve: is it the right one?", name.Name)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time"
	}
	return strings.ReplaceAll(err.Error(), address, "it")
}

// refusal formats each fault with its flag.
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

// keyRefused returns where the refused key came from, and what to do.
func keyRefused(flags *pflag.FlagSet) string {
	key, dir := flags.Lookup("api-key"), flags.Lookup("data-dir")
	switch {
	case key != nil && key.Changed:
		return "the service refuses the API key of " + originOf(key) + ": is it complete, of this " +
			"service, and neither revoked nor expired? `lumenhook keys create` makes another"
	case dir != nil:
		return "the service refuses the API key of the data folder " + dir.Value.String() +
			": was that key revoked? give another with --api-key or " + Variable("api-key")
	}
	return "the service refuses the API key"
}

// prefixes are how ids begin, by what a refusal calls those that have them.
var prefixes = map[string]string{
	"endpoint": "ep_",
	"watch":    "wat_",
	"event":    "evt_",
	"key":      "key_",
}

// otherKind says what ids are like of what the API does not find, where one is not: it is of
// something else, or cut off.
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

// noEndpoint says that an id is of no endpoint, and what to do on a command line: the API names its
// own requests.
func noEndpoint(id string) string {
	return "names no endpoint of your account: " + id + cmp.Or(otherKind("endpoint", id),
		"; `lumenhook endpoints list` shows yours, and `lumenhook endpoints create` makes one")
}

// one returns a noun with its article.
func one(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

// isID reports whether an id begins so, and is as long as one must be.
func isID(prefix, id string) bool {
	return strings.HasPrefix(id, prefix) && len(id) == len(prefix)+26
}

// named returns the id on a command line that the API does not find: the argument, or that of
// the flag whose name the refusal has.
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

// withFlags replaces the other end of a range in the detail of a fault by its flag: the API names
// the field or the parameter.
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

// isInvalid reports whether the API refused a flag's value that is invalid by itself,
// whatever the service holds.
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

// place returns the flag of a fault, or the field without one.
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

// fieldOf returns the parameter or the field of a fault, and the place inside it.
func fieldOf(f client.Fault) (field, inside string) {
	if f.Parameter != "" {
		return f.Parameter, ""
	}
	field, inside, _ = strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	return field, inside
}

// flagOf returns the flag of a fault's field, or nil.
func flagOf(f client.Fault, flags *pflag.FlagSet) *pflag.Flag {
	field, _ := fieldOf(f)
	return flagFor(field, flags)
}

// flagFor returns the flag of a field or a parameter, or nil.
func flagFor(field string, flags *pflag.FlagSet) *pflag.Flag {
	return flags.Lookup(cmp.Or(flagNames[field], flagOfName(field)))
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
