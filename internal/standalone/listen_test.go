package standalone

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// startOn chooses the addresses for a start with a folder. api is the default address of the API.
func startOn(t *testing.T, dir *runfile.Folder, api string, args ...string) (
	v *service, out *testkit.Buffer, err error,
) {
	t.Helper()
	var flags Flags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.Register(set)
	for _, flag := range []string{
		"kafka", "stellar", "receiver", "metrics", "clickhouse-native", "clickhouse-http",
	} {
		args = append(args, "--"+flag+"-listen", "127.0.0.1:0")
	}
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	flags.node.Set.API.Server.Listen = api
	out = &testkit.Buffer{}
	v = &service{flags: &flags, out: &narrator{out: out}, dir: dir}
	return v, out, v.settleAddresses(t.Context())
}

// At the first start of a demo, a default address that is taken is replaced, and the folder keeps
// the new one. The note is printed twice, because the output in between hides the first. Later
// starts must never choose another address silently: the shop's URLs would lead to the program that
// took the old one.
func TestAFolderKeepsItsAddresses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir, err := runfile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()

	v, out, err := startOn(t, dir, taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	at := v.addresses["api-listen"]
	note := taken.Addr().String() + " is taken: --api-listen is " + at + " in this folder"
	if at == taken.Addr().String() || !strings.Contains(out.String(), note) {
		t.Errorf("it listens on %s and printed\n%s", at, out)
	}
	v.file.KafkaBrokers, v.file.APIKey = []string{"127.0.0.1:9092"}, "the-api-key"
	v.sayAddresses()
	if said := out.String(); strings.Count(said, note) != 2 ||
		!strings.Contains(said, "/console   (sign in with the key)") ||
		!strings.Contains(said, "key in "+dir.Join("secrets", "api-key")) ||
		strings.Contains(said, v.file.APIKey) {
		t.Errorf("with the addresses it printed\n%s", said)
	}

	if v, _, err = startOn(t, dir, taken.Addr().String()); err != nil ||
		v.addresses["api-listen"] != at {
		t.Errorf("the second start: %v, on %s, and not %s", err, v.addresses["api-listen"], at)
	}
	stranger, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	_, _, err = startOn(t, dir, taken.Addr().String())
	want := "--api-listen: " + at + " is taken by standalone.test (process " +
		strconv.Itoa(os.Getpid()) + ")"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with a stranger at the folder's address: %v, want %s", err, want)
	}
	asked := "127.0.0.1:4040"
	if v, _, err = startOn(t, dir, asked, "--api-listen", asked); err != nil ||
		v.addresses["api-listen"] != asked {
		t.Errorf("by a flag: %v, on %s", err, v.addresses["api-listen"])
	}
}

// A service for another network must choose no other address, not even at the first start.
func TestAnotherNetworkGetsNoOtherPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir, err := runfile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_, _, err = startOn(t, dir, taken.Addr().String(), "--network", "testnet")
	if err == nil || !strings.Contains(err.Error(), "--api-listen: "+taken.Addr().String()) {
		t.Errorf("a taken port: %v", err)
	}
}
