package testkit

import "testing"

// Long leaves a test out of the short run (go test -short, make check). CONTRIBUTING.md lists what
// is left out and why. make test runs all of it.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out of the short run; make test runs it") //nolint:forbidigo // see above
	}
}
