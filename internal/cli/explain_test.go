package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A package name at the start of an error must be removed at any depth. Text that only looks like
// one stays.
func TestNamesOfPackagesAreNotTold(t *testing.T) {
	inner := errors.New("directory: it is behind")
	for _, c := range []struct {
		err  error
		want string
	}{
		{
			fmt.Errorf("reaching it: %w", fmt.Errorf("streams: opening a client: %w", inner)),
			"reaching it: opening a client: it is behind",
		},
		{errors.Join(inner, errors.New("streams: closed")), "it is behind\nclosed"},
		{
			errors.New("lumenhook.yaml: egress: must be a mapping"),
			"lumenhook.yaml: egress: must be a mapping",
		},
	} {
		if got := withoutPackages(c.err); got != c.want {
			t.Errorf("%q, not %q", got, c.want)
		}
	}
}

// The list must contain every package of the module whose errors begin with its name.
func TestEveryPackageOfErrorsIsKnown(t *testing.T) {
	begins := regexp.MustCompile("(?:errors\\.New|fmt\\.Errorf)\\([\"`]([a-z]+): ")
	clause := regexp.MustCompile(`(?m)^package (\w+)$`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := string(clause.FindSubmatch(text)[1])
		for _, found := range begins.FindAllSubmatch(text, -1) {
			if string(found[1]) == name && !slices.Contains(packages, name) {
				t.Errorf("%s: errors of package %s begin with its name, which is told to people", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The advice to log in must appear only if a broker closes the connection, not if another server
// does.
func TestOnlyBrokersAreAskedForALogin(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.StringSlice("kafka-brokers", nil, "")
	for name, c := range map[string]struct {
		err    error
		advice bool
	}{
		"a broker":   {fmt.Errorf("asking: %w", &kgo.ErrFirstReadEOF{}), true},
		"a login":    {fmt.Errorf("asking: %w", kerr.SaslAuthenticationFailed), true},
		"ClickHouse": {fmt.Errorf("comparing: read: %w", io.EOF), false},
	} {
		if got := Explain(c.err, flags); strings.Contains(got, "--kafka-user") != c.advice {
			t.Errorf("%s: advice %t is wanted, and it was told %q", name, c.advice, got)
		}
	}
}

// Unreachable brokers must be reported once, grouped by cause, with their addresses and what to do.
func TestBrokersThatCannotBeReachedAreToldOnce(t *testing.T) {
	refused := &net.OpError{
		Op:   "dial",
		Net:  "tcp",
		Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1},
		Err:  syscall.ECONNREFUSED,
	}
	unknown := &net.OpError{
		Op:  "dial",
		Net: "tcp",
		Err: &net.DNSError{Name: "kafka.invalid", IsNotFound: true},
	}
	for want, err := range map[string]error{
		"opening the account: no broker can be reached at 127.0.0.1:1: connection refused; is the service running, " +
			"and is this its address?": &kafka.UnreachableError{
			Brokers: []string{"127.0.0.1:1"},
			Causes:  []error{fmt.Errorf("unable to dial: %w", refused)},
		},
		"opening the account: no broker can be reached at a:1, b:1: connection refused; is the service running, " +
			"and is this its address?;\nnor at kafka.invalid:9092: the host name kafka.invalid does not " +
			"resolve; is it correct?;\nnor at c:1: a server listens there but doesn't " +
			"respond like a Kafka broker; is this a broker's address?": &kafka.UnreachableError{
			Brokers: []string{"a:1", "kafka.invalid:9092", "b:1", "c:1"},
			Causes:  []error{refused, unknown, refused, context.DeadlineExceeded},
		},
		"opening the account: cannot connect to 127.0.0.1:1: connection refused; is the " +
			"service running, and is this its address?": fmt.Errorf(
			"streams: asking for the offsets of topic x.results: asking for the brokers: "+
				"no usable response: unable to dial: %w", refused),
		"opening the account: the brokers closed the connection: if they require a login, " +
			"set --kafka-user and --kafka-password-file (and --kafka-sasl for another mechanism); if they require TLS, set " +
			"--kafka-tls, or --kafka-ca-file for a private certificate authority": fmt.Errorf(
			"streams: asking for the offsets of topic x.results: asking for the brokers: "+
				"no usable response: %w", &kgo.ErrFirstReadEOF{}),
	} {
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		flags.StringSlice("kafka-brokers", nil, "")
		got := Explain(fmt.Errorf("opening the account: %w", err), flags)
		if got != want {
			t.Errorf("it was told\n%s\nand not\n%s", got, want)
		}
	}
}
