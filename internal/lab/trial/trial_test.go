package trial_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/lab/trial"
)

var (
	seedFlag   = flag.Uint64("trial.seed", 0, "run this seed; 0: fresh seeds")
	fromFlag   = flag.String("trial.from", "", "draw the seeds from this text, such as a commit")
	opsFlag    = flag.Int("trial.ops", 250, "operations of a seed")
	forFlag    = flag.Duration("trial.for", 0, "how long fresh seeds are run, one after another")
	shrinkFlag = flag.Duration("trial.shrink", 5*time.Minute, "how long a failure is shrunk")
	keepFlag   = flag.String("trial.keep", "", "folder that keeps the runs that failed")
	scriptFlag = flag.String("trial.script", "", "run this script instead")
	binaryFlag = flag.String("trial.binary", "", "program to try; else it is built")
)

// built is the program that all tests of this package run. The first test builds it.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

func program(t *testing.T) string {
	t.Helper()
	if *binaryFlag != "" {
		return *binaryFlag
	}
	// The program downloads the engine in the background, but a trial needs a history.
	if _, err := clickhouse.Ensure(t.Context(), clickhouse.Options{Progress: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	built.once.Do(build)
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "lumenhook")
}

func build() {
	if built.dir, built.err = os.MkdirTemp("", "lumenhook-trial-"); built.err != nil {
		return
	}
	build := exec.Command("go", "build", "-o", built.dir+"/lumenhook", "./cmd/lumenhook")
	build.Dir = "../../.." // the product's own module
	if out, err := build.CombinedOutput(); err != nil {
		built.err = fmt.Errorf("building the program: %w\n%s", err, out)
	}
}

// keep returns the folder in which failed runs are kept.
func keep(t *testing.T) string {
	t.Helper()
	dir := *keepFlag
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "lumenhook-trials")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAFixedSeed is a short run for `make test`.
func TestAFixedSeed(t *testing.T) {
	try(t, program(t), keep(t), 5048, trial.Generate(5048, 70))
}

// TestFreshSeeds runs for `make trial`.
func TestFreshSeeds(t *testing.T) {
	if *scriptFlag == "" && *seedFlag == 0 && *forFlag == 0 {
		return // `make test` has TestAFixedSeed
	}
	bin, dir := program(t), keep(t)
	if *scriptFlag != "" {
		ops, err := trial.ReadScript(*scriptFlag)
		if err != nil {
			t.Fatal(err)
		}
		try(t, bin, dir, *seedFlag, ops)
		return
	}
	if *seedFlag != 0 {
		try(t, bin, dir, *seedFlag, trial.Generate(*seedFlag, *opsFlag))
		return
	}
	draw := seeds(*fromFlag)
	for began := time.Now(); time.Since(began) < *forFlag; {
		seed := draw()
		try(t, bin, dir, seed, trial.Generate(seed, *opsFlag))
	}
}

// seeds derives seeds from a text, always the same ones, so that a failure of a commit can be
// repeated. Without a text, the seeds are random.
func seeds(from string) func() uint64 {
	draw := rand.Uint64 //nolint:forbidigo // they are the seeds
	if from != "" {
		draw = rand.NewChaCha8(sha256.Sum256([]byte(from))).Uint64
	}
	return func() uint64 { return draw() >> 20 } // short enough to type
}

func TestSeedsOfATextAreDrawnAgain(t *testing.T) {
	first, again, other := seeds("5c27c566"), seeds("5c27c566"), seeds("58feccac")
	for range 10 {
		a, b, c := first(), again(), other()
		if a != b || a == c {
			t.Fatalf("drawn %d, again %d, for another text %d", a, b, c)
		}
	}
}

// try runs a script. A failing script is shrunk, printed and kept.
func try(t *testing.T, bin, dir string, seed uint64, ops []trial.Op) {
	t.Helper()
	t.Logf("SEED=%d OPS=%d", seed, len(ops))
	at := filepath.Join(dir, fmt.Sprintf("seed-%d-%d", seed, time.Now().Unix()))
	report, err := trial.Run(t.Context(), trial.Config{Binary: bin, Dir: at, Seed: seed, Ops: ops})
	if err != nil {
		t.Errorf("SEED=%d: the driver could not go on (%s): %v", seed, at, err)
		return
	}
	t.Logf("SEED=%d: %d payments, %d posts, %d kills, %s, %d violations", seed, report.Payments,
		report.Posts, report.Kills, report.Took.Round(time.Second), len(report.Violations))
	if len(report.Violations) == 0 {
		if err := os.RemoveAll(at); err != nil {
			t.Error(err)
		}
		return
	}
	t.Logf("kept in %s", at)
	if *shrinkFlag > 0 {
		shrink(t, bin, at, seed, ops, report.Violations[0])
	}
	// Print the violations last, because readers see the end of a log first, and often nothing
	// else.
	for _, v := range report.Violations {
		t.Errorf("SEED=%d OPS=%d: %s", seed, len(ops), v)
	}
}

func shrink(t *testing.T, bin, at string, seed uint64, ops []trial.Op, v trial.Violation) {
	t.Helper()
	rule, runs := v.Rule, 0
	short := trial.Shrink(ops, time.Now().Add(*shrinkFlag), func(ops []trial.Op) bool {
		runs++
		dir := filepath.Join(at, fmt.Sprintf("shrink-%d", runs))
		report, err := trial.Run(t.Context(), trial.Config{
			Binary: bin,
			Dir:    dir,
			Seed:   seed,
			Ops:    ops,
			Until:  rule,
			Brief:  !v.Late,
		})
		if err != nil {
			t.Logf("while shrinking: %v", err)
		}
		fails := slices.ContainsFunc(report.Violations,
			func(v trial.Violation) bool { return v.Rule == rule })
		if !fails {
			_ = os.RemoveAll(dir)
		}
		return fails
	})
	var script bytes.Buffer
	if err := trial.WriteScript(&script, short); err != nil {
		t.Error(err)
	}
	path := filepath.Join(at, "short.jsonl")
	if err := os.WriteFile(path, script.Bytes(), 0o600); err != nil {
		t.Error(err)
	}
	t.Logf("%s\nSEED=%d: %s needs %d of %d operations (%d runs; make trial SCRIPT=%s)",
		strings.TrimSpace(script.String()), seed, rule, len(short), len(ops), runs, path)
}

// The hostile tenant makes each of its attacks in every script of the default length, and enough
// of them in a script as short as that of TestAFixedSeed.
func TestEachSeedHasAHostileTenant(t *testing.T) {
	for seed := range uint64(200) {
		made := map[string]bool{}
		for i, op := range trial.Generate(seed, 250) {
			if op.Do == "attack" {
				made[op.Mode] = true
			}
			if i == 70 && len(made) < 4 {
				t.Errorf("seed %d has only the attacks %v in its first %d operations", seed, made, i)
			}
		}
		for _, mode := range trial.Attacks {
			if !made[mode] {
				t.Errorf("seed %d has no attack %q", seed, mode)
			}
		}
	}
}

// A seed always gives the same script, which survives writing and reading.
func TestASeedGivesAScript(t *testing.T) {
	ops := trial.Generate(42, 300)
	if len(ops) != 300 || !slices.EqualFunc(ops, trial.Generate(42, 300), func(a, b trial.Op) bool {
		return a.String() == b.String()
	}) {
		t.Fatal("two scripts of one seed differ")
	}
	path := filepath.Join(t.TempDir(), "script.jsonl")
	var text bytes.Buffer
	if err := trial.WriteScript(&text, ops); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := trial.ReadScript(path)
	if err != nil || len(again) != len(ops) || again[299].String() != ops[299].String() {
		t.Fatalf("read back: %d operations, %v", len(again), err)
	}
}
