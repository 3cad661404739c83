package standalone

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

// Once the egress client permits the demo receiver's port, no other program may be able to bind it.
func TestThePortOfTheDemoIsNobodyElses(t *testing.T) {
	dir, err := runfile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	stack := &node.Stack{
		Failed: func(err error) { t.Error(err) },
		Logger: slog.New(slog.DiscardHandler),
	}
	defer stack.Stop()
	flags, set := new(Flags), pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.Register(set)
	err = set.Parse([]string{"--receiver-listen", "127.0.0.1:0", "--egress-ports", "443"})
	if err != nil {
		t.Fatal(err)
	}
	v := &service{
		Stack: stack,
		dir:   dir,
		flags: flags,
		out:   &narrator{out: io.Discard},
	}
	if v.ca, err = keys.LoadOrCreateCA(dir.Join("secrets"), dir.Join("ca.pem"), time.Now); err != nil {
		t.Fatal(err)
	}
	v.addresses = flags.listens()
	if err := v.startDemoReceiver(); err != nil {
		t.Fatal(err)
	}
	permitted, err := url.Parse(v.file.Receiver.URL)
	if err != nil {
		t.Fatal(err)
	}
	if ports := v.flags.node.Set.Egress.Policy.Ports.String(); ports != "443,"+permitted.Port() {
		t.Errorf("the ports %s are permitted, and the receiver is at %s", ports, permitted.Host)
	}
	if _, err := net.Listen("tcp", permitted.Host); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("somebody else may bind it: %v", err)
	}
}
