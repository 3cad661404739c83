// Command table runs Go benchmarks and writes their results as the table of docs/benchmarks.md:
//
//	make bench LINES=deliver,latency REPS=5
//
// Each repetition runs each line once, so that no line benefits if the machine becomes slower. The
// benchmarks' output goes to bench/results/latest.txt for benchstat, the medians go to latest.json,
// and the table goes to latest.md and standard output.
//
// A metric "floor-X" is the floor of its benchmark's metric X. For BenchmarkX/Y, it may also be the
// metric of BenchmarkX/floor_Y.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// line is a set of benchmarks that -lines can select.
type line struct {
	name    string
	pattern string // for go test -bench
	pkg     string // relative to the root of the repository
	flags   []string
	takes   string // duration of a repetition on two cores
}

const whole = "internal/lab/bench"

// once is for benchmarks that are a single measurement.
var once = []string{"-benchtime=1x"}

var lines = []line{
	{"deliver", "^BenchmarkDeliver$", whole, once, "10 min"},
	{"latency", "^BenchmarkLatency$", whole, once, "8 min"},
	{"close", "^BenchmarkClose$", whole, once, "1 min"},
	{"extract", "^Benchmark(FromXDR|FromRPC|FloorFromXDRBySDK)$",
		"internal/stellar/source", []string{"-cpu=1", "-benchtime=3s"}, "15 s"},
	{"catchup", "^BenchmarkFarCatchUp$", "streams/follower", []string{"-benchtime=3x"}, "40 s"},
	{"match", "^BenchmarkMatch$", "streams/follower", []string{"-cpu=1", "-benchtime=2s"}, "1 min"},
	{"waiting", "^BenchmarkWaiting$", whole, once, "4 min"},
	{"hanging", "^BenchmarkFairness$", whole, once, "1 min"},
	{"rebuild", "^BenchmarkRebuild$", "projections", once, "40 s"},
	{"api", "^BenchmarkAPI$", "cmd/lumenhook", once, "2 min"},
	{"kafka", "^BenchmarkKafka$", whole, once, "6 min; needs Java"},
	{"memory", "^Benchmark(Memory|Endpoints)$", whole, once, "1 min"},
	{"history", "^BenchmarkHistory$", whole, once, "4 min, and 26 once to make the past"},
	{"backlog", "^BenchmarkBacklog$", whole, once, "5 min"},
	{"restore", "^Benchmark(Restore|TakeOver)$", whole, once, "2 min, on the past of history"},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	names := f.String("lines", "all", "lines, separated by commas")
	reps := f.Int("reps", 5, "repetitions")
	root := f.String("root", "../..", "the repository")
	if err := f.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*names)
	if err != nil {
		return err
	}
	const dir = "bench/results"
	if err := os.Chdir(*root); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	file := filepath.Join(dir, "latest.txt")
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed := measure(ctx, chosen, *reps, f.Args(), io.MultiWriter(out, os.Stderr))
	rows, err := read(file)
	if err := errors.Join(out.Close(), err); err != nil {
		return err
	}
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	table := markdown(rows)
	fmt.Print(table)
	return errors.Join(failed,
		os.WriteFile(filepath.Join(dir, "latest.json"), append(text, '\n'), 0o600),
		os.WriteFile(filepath.Join(dir, "latest.md"), []byte(table), 0o600))
}

// choose returns the lines in a list of names. A name may select some of a line's benchmarks, as in
// deliver/endpoints=8/sync=false.
func choose(names string) (chosen []line, err error) {
	for name := range strings.SplitSeq(names, ",") {
		if name == "all" {
			chosen = append(chosen, lines...)
			continue
		}
		name, part, some := strings.Cut(name, "/")
		at := slices.IndexFunc(lines, func(l line) bool { return l.name == name })
		if at < 0 {
			var known strings.Builder
			for _, l := range lines {
				fmt.Fprintf(&known, "\n  %-8s %s", l.name, l.takes)
			}
			return nil, fmt.Errorf("unknown line %q; lines and the time of a repetition:%s", name, &known)
		}
		l := lines[at]
		if some {
			l.pattern += "/" + part
		}
		chosen = append(chosen, l)
	}
	return chosen, nil
}

// measure runs the benchmarks. If a line fails, it continues with the others.
func measure(ctx context.Context, chosen []line, reps int, args []string, out io.Writer) error {
	var failed error
	for n := range reps {
		for _, l := range chosen {
			if ctx.Err() != nil {
				return errors.Join(failed, ctx.Err())
			}
			fmt.Fprintf(os.Stderr, "%s, repetition %d of %d, takes %s\n", l.name, n+1, reps, l.takes)
			given := slices.Concat([]string{"test", "-run=^$", "-bench=" + l.pattern, "-count=1",
				"-timeout=3h"}, l.flags, []string{"."}, args)
			c := exec.CommandContext(ctx, "go", given...) // #nosec G204 -- the flags are the user's
			c.Dir, c.Stdout, c.Stderr = filepath.FromSlash(l.pkg), out, os.Stderr
			c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
			if err := c.Run(); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", l.name, err))
			}
		}
	}
	return failed
}

// markdown formats rows as a table. Missed aims are bold.
func markdown(rows []*row) string {
	var b strings.Builder
	b.WriteString("| line | unit | min, median, max | floor | of the floor | aim |\n" +
		"|---|---|---|---|---|---|\n")
	for _, r := range rows {
		for _, f := range r.figures {
			floor, ratio := "", ""
			if f.Floor != nil {
				floor, ratio = short(*f.Floor), short(*f.Ratio)
			}
			fmt.Fprintf(&b, "| %s | %s | %s, %s, %s | %s | %s | %s |\n", r.Line, f.Unit, short(f.min),
				short(f.Median), short(f.max), floor, ratio, f.Aim+f.verdict())
		}
	}
	return b.String()
}
