package runfile

import (
	"os"
	"strings"
	"testing"
)

// A folder must keep the network that it was created with, even if it was created before the
// network was recorded.
func TestAFolderIsOfOneNetwork(t *testing.T) {
	const test, other = "Test SDF Network ; September 2015", "Another ; 2026"
	for name, c := range map[string]struct{ begun, next, says string }{
		"the same":       {test, test, ""},
		"its own again":  {"", "", ""},
		"no longer own":  {"", test, "belongs to a devnet; omit --network"},
		"own from now":   {test, "", `belongs to the network "` + test + `"; use that network`},
		"another public": {test, other, `belongs to the network "` + test + `"; use that network`},
	} {
		t.Run(name, func(t *testing.T) {
			d := opened(t)
			if err := d.CheckNetwork(c.begun); err != nil {
				t.Fatal(err)
			}
			is(t, d.CheckNetwork(c.next), c.says)
		})
	}
	d := opened(t)
	if err := os.WriteFile(IdentitiesFile(d.path), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	is(t, d.CheckNetwork(test), "belongs to a devnet")
	is(t, d.CheckNetwork(""), "")
}

func opened(t *testing.T) *Folder {
	t.Helper()
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func is(t *testing.T, err error, says string) {
	t.Helper()
	if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
		t.Errorf("it says %v, and not %q", err, says)
	}
}
