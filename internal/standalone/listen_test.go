package standalone

import (
	"net"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// A default port that is in use is replaced. That is printed at once, and again with the addresses,
// because the output in between hides it.
func TestATakenPortIsPrintedWithTheAddresses(t *testing.T) {
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
	var out testkit.Buffer
	var flags Flags
	flags.Register(pflag.NewFlagSet("run", pflag.ContinueOnError))
	v := &service{
		flags: &flags,
		out:   &narrator{out: &out},
		dir:   dir,
	}
	v.file.KafkaBrokers, v.file.APIKey = []string{"127.0.0.1:9092"}, "the-api-key"
	at := v.address("api-listen", taken.Addr().String())
	note := taken.Addr().String() + " is taken: --api-listen is " + at + " this time"
	if said := out.String(); at == taken.Addr().String() || !strings.Contains(said, note) {
		t.Errorf("it listens on %s and printed\n%s", at, said)
	}
	v.sayAddresses()
	if said := out.String(); strings.Count(said, note) != 2 ||
		!strings.Contains(said, "/console   (sign in with the key)") ||
		!strings.Contains(said, "key in "+dir.Join("secrets", "api-key")) ||
		strings.Contains(said, v.file.APIKey) {
		t.Errorf("with the addresses it printed\n%s", said)
	}
}
