package deploy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/deploy"
)

func TestEveryPinnedEngineIsCompleteAndHoldsNoAddress(t *testing.T) {
	platforms := deploy.Platforms()
	if len(platforms) == 0 {
		t.Fatal("no platform is pinned")
	}
	for _, platform := range platforms {
		e, err := deploy.ClickHouseEngine(platform)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(e.Package, platform) {
			t.Errorf("%s: package %q is another platform's", platform, e.Package)
		}
		var lock struct {
			Packages map[string]struct{ Version, Integrity, Resolved string }
		}
		if err := json.Unmarshal(e.LockJSON, &lock); err != nil {
			t.Fatalf("%s: package-lock.json: %v", platform, err)
		}
		got := lock.Packages["node_modules/"+e.Package]
		if got.Version != e.Version {
			t.Errorf("%s: the lock pins %q, package.json %q", platform, got.Version, e.Version)
		}
		if !strings.HasPrefix(got.Integrity, "sha512-") {
			t.Errorf("%s: the lock holds no sha512 integrity hash: %q", platform, got.Integrity)
		}
		if strings.Contains(string(e.LockJSON), "://") {
			t.Errorf("%s: the lock holds a download address; make it with --omit-lockfile-registry-resolved",
				platform)
		}
	}
}

func TestUnknownPlatformNamesThePinnedOnes(t *testing.T) {
	_, err := deploy.ClickHouseEngine("plan9-mips")
	if err == nil || !strings.Contains(err.Error(), "plan9-mips") ||
		!strings.Contains(err.Error(), "linux-x64-gnu") {
		t.Fatalf("got %v", err)
	}
}
