package config

import (
	"net"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/runfile"
)

// If the data folder's service isn't running and no process listens at the usual address, the error
// must say what happened to that service and how to continue.
func TestAServiceThatWasStoppedIsToldOf(t *testing.T) {
	dir := t.TempDir()
	folder, err := runfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	var p Process
	p.Register(pflag.NewFlagSet("test", pflag.ContinueOnError))
	p.DataDir, p.listen = dir, l.Addr().String() // instead of the defaults
	_, err = p.LedgerSources(t.Context())
	if err == nil {
		t.Fatal("it is answered")
	}
	for _, want := range []string{
		"has been stopped: start it again with `lumenhook run --data-dir " + dir,
		"nothing listens at " + p.listen, "--metrics-listen",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
}
