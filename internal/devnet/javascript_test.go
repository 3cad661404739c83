package devnet_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet"
)

// open runs a network. By default, its ledgers close only when the test says so.
func open(t *testing.T, change func(*devnet.Config)) (*devnet.Network, devnet.Identities) {
	t.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	config := devnet.Config{
		Dir:           t.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: time.Hour,
	}
	if change != nil {
		change(&config)
	}
	n, err := devnet.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n, ids
}

// installSDK has npm install Stellar's JavaScript SDK, as pinned by the lock file, into the user's
// cache, once per lock file.
func installSDK(t *testing.T, ctx context.Context) (dir string) {
	t.Helper()
	lock, err := os.ReadFile("javascript/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir = filepath.Join(cache, "lumenhook", "devnet-javascript-"+hex.EncodeToString(sum[:8]))
	done := filepath.Join(dir, "node_modules", ".package-lock.json")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	copyInto(t, dir, "package.json", "package-lock.json")
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
		"--loglevel=error")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm cannot install Stellar's JavaScript SDK (Node.js 20 or newer with npm, and a registry, are needed): %v\n%s", err, out)
	}
	return dir
}

func copyInto(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join("javascript", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Stellar's own JavaScript SDK must work with the devnet, unchanged, as it does with the real
// network.
func TestJavaScriptSDK(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := installSDK(t, ctx)
	copyInto(t, dir, "pay.mjs")
	n, _ := open(t, func(c *devnet.Config) { c.CloseInterval = 100 * time.Millisecond })
	node := exec.CommandContext(ctx, "node", "pay.mjs", n.RPCURL())
	node.Dir, node.Stderr = dir, os.Stderr
	out, err := node.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	type outcome struct {
		Hash, Status string
		Ledger       uint32
	}
	var got struct {
		Destination, Balance string // balance in stroops
		Paid, Failed         outcome
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.Destination[0] != 'M' || got.Paid.Status != "SUCCESS" || got.Failed.Status != "FAILED" ||
		got.Balance != "100125000000" {
		t.Errorf("got %s", out)
	}
}

func TestParseFaults(t *testing.T) {
	got, err := devnet.ParseFaults("errors@30x10, gap@50")
	if err != nil ||
		!slices.Equal(got,
			[]devnet.Fault{
				{Kind: devnet.FaultErrors, Ledger: 30, Answers: 10},
				{Kind: devnet.FaultGap, Ledger: 50, Answers: 1},
			}) {
		t.Errorf("got %v (%v)", got, err)
	}
	for _, text := range []string{"errors", "gap@", "gap@0", "gap@5x0", "flood@5", "gap@x"} {
		if _, err := devnet.ParseFaults(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}
