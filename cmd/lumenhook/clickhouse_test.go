package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/internal/keys"
)

// endTLS terminates TLS in front of a plaintext server. Clients must present a certificate.
func endTLS(
	t *testing.T, ca *keys.CA, clients *kafkatest.ClientCA, server string,
) (address string) {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AddCert(clients.Certificate())
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetCertificate: ca.GetCertificate,
		MinVersion:     tls.VersionTLS12,
		ClientAuth:     tls.RequireAndVerifyClientCert,
		ClientCAs:      trusted,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go join(client, server)
		}
	}()
	return l.Addr().String()
}

// join copies bytes both ways until one side closes.
func join(client net.Conn, server string) {
	defer client.Close()
	behind, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer behind.Close()
	go func() {
		_, _ = io.Copy(client, behind)
		_ = client.Close()
	}()
	_, _ = io.Copy(behind, client)
}

// TestClickHouseByTLSAndPassword connects to a ClickHouse that requires TLS, a client certificate,
// and a password. If any one of the settings is missing, the command must fail.
func TestClickHouseByTLSAndPassword(t *testing.T) {
	dir := t.TempDir()
	engine := clickhousetest.Start(t)
	dsn, err := url.Parse(engine.DSN())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := keys.LoadOrCreateCA(filepath.Join(dir, "authority"), filepath.Join(dir, "ca.pem"),
		time.Now)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kafkatest.NewClientCA(filepath.Join(dir, "clients.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.Issue("lumenhook", filepath.Join(dir,
		"cert.pem"), filepath.Join(dir, "key.pem")); err != nil {
		t.Fatal(err)
	}
	password, _ := dsn.User.Password()
	address := "--clickhouse-dsn=clickhouse://" + endTLS(t, ca, clients, dsn.Host) + dsn.Path
	login := []string{
		"--clickhouse-user=" + dsn.User.Username(), "--clickhouse-password=" + password,
	}
	files := []string{
		"secure=true", "ca_file=" + filepath.Join(dir, "ca.pem"),
		"cert_file=" + filepath.Join(dir, "cert.pem"), "key_file=" + filepath.Join(dir, "key.pem"),
	}
	all := append([]string{address + "?" + strings.Join(files, "&")}, login...)
	if out, err := program(append([]string{"migrate"}, all...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	query := append([]string{"sql", "--format=csv", "SELECT 7 AS n"}, all...)
	out, err := program(query...).CombinedOutput()
	if err != nil || string(out) != "n\n7\n" {
		t.Errorf("%v\n%s", err, out)
	}
	without := func(list []string, i int) []string {
		return append(slices.Clone(list[:i]), list[i+1:]...)
	}
	fails := func(name string, args ...string) {
		t.Helper()
		out, err := program(append([]string{"sql", "SELECT 7"}, args...)...).CombinedOutput()
		if err == nil {
			t.Errorf("without %s it said %s", name, out)
		}
	}
	for i := range login {
		fails(login[i], without(all, 1+i)...)
	}
	for i := range files {
		at := address + "?" + strings.Join(without(files, i), "&")
		fails(files[i], append([]string{at}, login...)...)
	}
}

// Conflicting ClickHouse flags are reported, and the error never shows a password.
func TestFaultsOfClickHouseFlags(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const dsn = "--clickhouse-dsn=clickhouse://clickhouse:9000/shop"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--clickhouse-user=shop"}, "need --clickhouse-dsn"},
		{[]string{"--clickhouse-password=hidden"}, "need --clickhouse-dsn"},
		{
			[]string{dsn + "?password=hidden", "--clickhouse-password=hidden"},
			"that another flag also sets",
		},
		{[]string{dsn + "?ca_file=" + empty}, "--clickhouse-dsn"},
		{[]string{dsn + "?secure=true&ca_file=" + empty}, "readable certificate files"},
		{[]string{dsn + "?secure=true&cert_file=" + empty}, "readable certificate files"},
	} {
		out, err := program(append([]string{
			"config", "check", "--roles=projector", "--kafka-brokers=kafka:9092",
		}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v, want %q\n%s", c.args, err, c.want, out)
		}
		if strings.Contains(string(out), "hidden") {
			t.Errorf("%v: a password is shown:\n%s", c.args, out)
		}
	}
}
