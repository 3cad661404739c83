package keys

import (
	"io/fs"
	"testing"
)

// A process of another user may read root's file through its group, because secrets are mounted
// this way. No other access by a group or by everyone is permitted.
func TestWhoMayReadTheKeyFile(t *testing.T) {
	const root, service = 0, 65532
	for _, c := range []struct {
		mode        fs.FileMode
		owner, self int
		tooOpen     bool
	}{
		{0o600, service, service, false},
		{0o400, service, service, false},
		{0o440, root, service, false},
		{0o640, root, service, false},
		{0o440, root, root, true},
		{0o440, service, service, true},
		{0o440, 1000, service, true},
		{0o444, root, service, true},
		{0o460, root, service, true},
		{0o640, -1, service, true},
	} {
		if got := tooOpen(c.mode, c.owner, c.self); got != c.tooOpen {
			t.Errorf("mode %04o of user %d, read by user %d: too open %v", c.mode, c.owner, c.self, got)
		}
	}
}
