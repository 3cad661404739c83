package broker_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// open starts a broker that requires a password. The caller closes it.
func open(t *testing.T, dir, password string) *broker.Broker {
	t.Helper()
	b, err := broker.Start(broker.Config{
		Dir:      dir,
		Listen:   "127.0.0.1:0",
		User:     "lumenhook",
		Password: password,
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func login(user, password string) sasl.Mechanism {
	return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
}

// topicsAs lists the topics as a client with this login, or without one if m is nil.
func topicsAs(t *testing.T, addr string, m sasl.Mechanism) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(t))
	defer cancel()
	opts := []kgo.Opt{kgo.RetryTimeout(time.Second), kgo.RequestRetries(1)}
	if m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	topics, err := kadm.NewClient(newClient(t, addr, opts...)).ListTopics(ctx)
	return topics.Names(), err
}

// A broker without passwords can continue with one, and with a new one if it is regenerated. A
// restart keeps the password.
func TestOnlyWhoHasThePasswordIsServed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "broker")
	b, err := broker.Start(broker.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(newClient(t, b.Addr())).CreateTopic(t.Context(), 1, 1, nil,
		topic); err != nil {
		t.Fatal(err)
	}
	b.Close()
	for _, password := range []string{"first", "first", "second"} {
		b := open(t, dir, password)
		if got, err := topicsAs(t, b.Addr(), login("lumenhook", password)); err != nil ||
			!slices.Equal(got, []string{topic}) {
			t.Errorf("with the password: %v, %v", got, err)
		}
		for name, m := range map[string]sasl.Mechanism{
			"nothing":          nil,
			"another password": login("lumenhook", "x"), "another user": login("admin", "admin"),
			"an empty PLAIN":  plain.Auth{}.AsMechanism(),
			"PLAIN":           plain.Auth{User: "lumenhook", Pass: password}.AsMechanism(),
			"PLAIN of nobody": plain.Auth{User: "nobody"}.AsMechanism(),
			"SHA-512":         scram.Auth{User: "lumenhook", Pass: password}.AsSha512Mechanism(),
		} {
			if got, err := topicsAs(t, b.Addr(), m); err == nil {
				t.Errorf("with %s: %v", name, got)
			}
		}
		b.Close()
		kept, err := os.ReadFile(filepath.Join(dir, "sasl.json"))
		if err == nil && strings.Contains(string(kept), password) {
			t.Errorf("the password is kept in the clear: %s", kept)
		}
	}
}

// Before a login, the broker answers only ApiVersions and the handshake. Any other request must
// close the connection.
func TestNothingIsAnsweredBeforeTheLogin(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "broker"), "secret")
	t.Cleanup(b.Close)
	apiVersions, handshake := kmsg.NewPtrApiVersionsRequest().Key(),
		kmsg.NewPtrSASLHandshakeRequest().Key()
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for _, version := range []int16{0, req.MaxVersion()} {
			req.SetVersion(version)
			answer, err := raw(t, b.Addr(), req)
			if open := key == apiVersions || key == handshake; err == nil && !open {
				t.Errorf("%s v%d is answered with %d bytes", kmsg.NameForKey(key), version, len(answer))
			}
		}
	}
	if _, err := topicsAs(t, b.Addr(), login("lumenhook", "secret")); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// A malformed, oversized or unknown request without a login must close only the client's own
// connection. The same is true for an unknown request during the login.
func TestAStrangersRequestEndsItsConnectionOnly(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "broker"), "secret")
	t.Cleanup(b.Close)
	request := func(size uint32, key uint16) []byte {
		head := binary.BigEndian.AppendUint32(nil, size)
		head = binary.BigEndian.AppendUint16(head, key)
		return append(head, make([]byte, 8)...)
	}
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, "SCRAM-SHA-256"
	shaken := kmsg.NewRequestFormatter().AppendRequest(nil, handshake, 1)
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version, versions.ClientSoftwareName = 3, strings.Repeat("a", 65<<10)
	large := kmsg.NewRequestFormatter().AppendRequest(nil, versions, 1)
	for name, sent := range map[string][]byte{
		"unknown":               request(10, 9999),
		"below all keys":        request(10, 0xffff),
		"large":                 large,
		"huge":                  request(math.MaxUint32, 18),
		"without a key":         request(1, 18),
		"unknown within logins": append(slices.Clone(shaken), request(10, 9999)...),
		"many at once":          bytes.Repeat(shaken, 100),
	} {
		conn, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(testkit.Patience(t)))
		_, _ = conn.Write(sent)
		answered, err := io.Copy(io.Discard, conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open", name)
		}
		if answered > 0 && !bytes.HasPrefix(sent, shaken) {
			t.Errorf("%s: it is answered with %d bytes", name, answered)
		}
	}
	if _, err := topicsAs(t, b.Addr(), login("lumenhook", "secret")); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// Connections that don't log in are closed after a while, and must not lock others out until
// then. A client that has logged in may be silent.
func TestConnectionsThatDoNotLogInEnd(t *testing.T) {
	t.Parallel()
	b := open(t, filepath.Join(t.TempDir(), "broker"), "secret")
	t.Cleanup(b.Close)
	client := kadm.NewClient(newClient(t, b.Addr(), kgo.SASL(login("lumenhook", "secret")),
		kgo.ConnIdleTimeout(15*time.Minute)))
	if _, err := client.ListTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	var silent []net.Conn
	for range 2000 {
		conn, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	if _, err := topicsAs(t, b.Addr(), login("lumenhook", "secret")); err != nil {
		t.Errorf("among silent connections: %v", err)
	}
	for _, conn := range silent {
		_ = conn.SetDeadline(time.Now().Add(testkit.Patience(t)))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection stays open without a login")
		}
	}
	if _, err := client.ListTopics(t.Context()); err != nil {
		t.Errorf("the client that had logged in: %v", err)
	}
}

func raw(t *testing.T, addr string, req kmsg.Request) ([]byte, error) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s v%d: the connection is held", kmsg.NameForKey(req.Key()), req.GetVersion())
		}
		return nil, err
	}
	var answer bytes.Buffer
	_, err = io.CopyN(&answer, conn, int64(binary.BigEndian.Uint32(size[:])))
	return answer.Bytes(), err
}

// The broker itself ends a transaction that a kill left open, and its client also has to log in.
func TestABrokerWithAPasswordEndsWhatAKillLeftOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	b := open(t, dir, "secret")
	t.Cleanup(b.Close)
	as := kgo.SASL(login("lumenhook", "secret"))
	if _, err := kadm.NewClient(newClient(t, b.Addr(), as)).CreateTopic(t.Context(), 1, 1, nil,
		topic); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, b.Addr(), as, kgo.TransactionalID("task"), kgo.TransactionTimeout(5*time.Second),
		kgo.DefaultProduceTopic(topic))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(t.Context(), kgo.StringRecord("cut short")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	second := open(t, killed(t, dir), "secret")
	t.Cleanup(second.Close)
	if got := committed(t, second.Addr(), as); len(got) != 0 {
		t.Errorf("committed: %q", got)
	}
}

// librdkafka doesn't log in to a broker that doesn't advertise version 0 of the handshake.
func TestTheFirstHandshakeIsNamed(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "broker"), "secret")
	t.Cleanup(b.Close)
	for version := range int16(5) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.SetVersion(version)
		req.ClientSoftwareName, req.ClientSoftwareVersion = "librdkafka", "2.0.2"
		answer, err := raw(t, b.Addr(), req)
		if err != nil {
			t.Fatal(err)
		}
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		// The response has no other header after the correlation id.
		if err := resp.ReadFrom(answer[4:]); err != nil {
			t.Fatal(err)
		}
		known := map[int16][2]int16{}
		for _, k := range resp.ApiKeys {
			known[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		if len(known) < 40 || known[kmsg.SASLHandshake.Int16()] != [2]int16{0, 1} ||
			known[kmsg.Produce.Int16()][1] < 9 {
			t.Errorf("version %d: %v", version, known)
		}
	}
}
