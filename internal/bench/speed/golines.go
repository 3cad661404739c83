package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Lines whose figures Go's benchmarks make: each stands where what it measures does, and is run
// here as it is.

const (
	benchFolder   = "internal/bench"
	ledgerFolder  = "internal/stellar/source/sourcestest"
	matchFolder   = "streams/follower"
	rebuildFolder = "projections"
	apiFolder     = "cmd/lumenhook"

	aimXDR        = 500.0     // ledgers a second
	aimRPC        = 300.0     // the same
	aimMatch      = 500_000.0 // payments a second
	aimWatchBytes = 300.0
	aimIdle       = 0.5  // percent of a core
	aimDue        = 20.0 // milliseconds
	aimRestart    = 2.0  // seconds
	aimHanging    = 1.5  // times as long as alone
	aimRebuild    = 250_000.0
	aimCreates    = 6000.0 // a second
	aimReads      = 25_000.0
	aimLone       = 5.0  // milliseconds
	aimFar        = 80.0 // percent of the rate without a delay
)

// goStep is a step of a line that is one benchmark.
func (l *lab) goStep(
	name string, takes time.Duration, b goBench, read func([]benchmark) ([]figure, error),
) []step {
	return []step{{name: name, takes: takes, run: func(ctx context.Context, _ int) (record, error) {
		all, err := l.runGo(ctx, b)
		if err != nil {
			return record{}, err
		}
		figures, err := read(all)
		return record{Figures: figures}, err
	}}}
}

// reads returns a reader of one benchmark's figures.
func reads(name string, want ...told) func([]benchmark) ([]figure, error) {
	return func(all []benchmark) ([]figure, error) {
		b, err := one(all, name)
		if err != nil {
			return nil, err
		}
		return figuresOf(b, want)
	}
}

// both reads with one reader after the other.
func both(readers ...func([]benchmark) ([]figure, error)) func([]benchmark) ([]figure, error) {
	return func(all []benchmark) (list []figure, err error) {
		for _, read := range readers {
			figures, fault := read(all)
			list, err = append(list, figures...), errors.Join(err, fault)
		}
		return list, err
	}
}

func (l *lab) extractSteps() []step {
	ledgers := func(from string, bound float64) told {
		return told{
			row:  "extract a ledger of 1,000 payments from " + from + ", on one core",
			unit: "1/s",
			of:   []string{"ledgers/s"},
			aim:  atLeast(ofFigure, bound, "1/s"),
		}
	}
	const floor = "FloorFromXDRBySDK"
	return l.goStep("extract", 15*time.Second, goBench{
		dir:  ledgerFolder,
		name: "^Benchmark(FromXDR|FromRPC|" + floor + ")$",
		args: []string{"-test.cpu=1", "-test.benchtime=3s"},
	}, func(all []benchmark) ([]figure, error) {
		list, err := both(reads("FromXDR", ledgers("XDR", aimXDR)),
			reads("FromRPC", ledgers("RPC's JSON", aimRPC)))(all)
		beside, fault := reads(floor, told{of: []string{"ledgers/s"}})(all)
		for i := range list {
			if fault == nil {
				list[i].FloorName, list[i].Floor = "the SDK decodes the same XDR", beside[0].Value
			}
		}
		return list, errors.Join(err, fault)
	})
}

func (l *lab) catchUpSteps() []step {
	return l.goStep("catchup", 40*time.Second, goBench{
		dir:  matchFolder,
		name: "^BenchmarkFarCatchUp$",
		args: []string{"-test.benchtime=3x"},
	}, reads("FarCatchUp", told{
		row:       "ledgers followed over RPC, catching up, at a round trip of 80 ms",
		unit:      "1/s",
		of:        []string{"far-ledgers/s"},
		aim:       atLeast(ofRatio, aimFar, "%"),
		floorName: "without the delay",
		floor:     []string{"near-ledgers/s"},
	}))
}

func (l *lab) matchSteps() []step {
	return l.goStep("match", 70*time.Second, goBench{
		dir:  matchFolder,
		name: "^BenchmarkMatch$",
		args: []string{"-test.cpu=1", "-test.benchtime=2s", "-watches=" + strconv.Itoa(l.opt.Watches)},
	}, readMatch)
}

// mostWatched is the part that no network comes near: it is measured, and has no aim.
const mostWatched = "50%_watched"

// readMatch reads a benchmark that has a part for each share of payments that are watched, and
// beside each a floor.
func readMatch(all []benchmark) (list []figure, err error) {
	const floor = "floor_"
	floors := make(map[string]float64)
	var parts []benchmark
	for _, b := range all {
		_, part, _ := strings.Cut(b.name, "/")
		if share, is := strings.CutPrefix(part, floor); is {
			v, fault := b.unit("payments/s")
			floors[share], err = v, errors.Join(err, fault)
		} else if part != "" {
			parts = append(parts, b)
		}
	}
	if len(parts) == 0 {
		_, err := one(all, "Match/…")
		return nil, err
	}
	for n, b := range parts {
		_, part, _ := strings.Cut(b.name, "/")
		v, fault := b.unit("payments/s")
		if fault != nil {
			err = errors.Join(err, fault)
			continue
		}
		f := figure{
			Row:   "match payments, " + strings.ReplaceAll(part, "_", " ") + ", on one core",
			Unit:  "1/s",
			Value: v,
		}
		if part != mostWatched {
			f.Aim = atLeast(ofFigure, aimMatch, "1/s")
		}
		if at, is := floors[part]; is {
			f.FloorName, f.Floor = "a Go map of the wallets", at
		}
		list = append(list, f)
		if n == 0 {
			list = append(list, watchBytes(b)...)
		}
	}
	if len(list) == len(parts) {
		err = errors.Join(err, errors.New("no unit of BenchmarkMatch is bytes/watch"))
	}
	return list, err
}

// watchBytes are what a watch takes: on disk, in memory, or as it is called.
func watchBytes(b benchmark) (list []figure) {
	for _, kind := range []struct{ unit, row string }{
		{"bytes/watch", "a watch"},
		{"memory-bytes/watch", "a watch, in the directory's memory"},
		{"disk-bytes/watch", "a watch, on the directory's disk"},
	} {
		if v, is := b.units[kind.unit]; is {
			list = append(list, figure{
				Row:   kind.row,
				Unit:  "bytes",
				Value: v,
				Aim:   atMost(ofFigure, aimWatchBytes, "bytes"),
			})
		}
	}
	return list
}

func (l *lab) waitingSteps() []step {
	return l.goStep("waiting", 2*time.Minute, goBench{
		dir:  benchFolder,
		name: "^BenchmarkWaiting$",
		args: []string{"-test.benchtime=1x", "-waiting=" + strconv.Itoa(l.opt.Waiting)},
	}, reads("Waiting",
		told{
			row:  thousands(l.opt.Waiting) + " deliveries wait: processor while nothing is due",
			unit: "%",
			of:   []string{"%core-idle"},
			aim:  atMost(ofFigure, aimIdle, "%"),
		},
		told{
			row:  thousands(l.opt.Waiting) + " deliveries wait: restart until ready",
			unit: "s",
			of:   []string{"s-from-state"},
			aim:  atMost(ofFigure, aimRestart, "s"),
		},
		told{
			row:   thousands(l.opt.Waiting) + " deliveries wait: restart without local state and snapshots",
			unit:  "s",
			of:    []string{"s-from-journal"},
			aside: true,
		},
		told{
			row:  thousands(l.opt.Waiting) + " deliveries wait: error of due times at 1,000 due/s, p99",
			unit: "ms",
			of:   []string{"p99-ms-late"},
			aim:  atMost(ofFigure, aimDue, "ms"),
		},
		told{
			row:   thousands(l.opt.Waiting) + " deliveries wait: error of due times at 1,000 due/s, p50",
			unit:  "ms",
			of:    []string{"p50-ms-late"},
			aside: true,
		},
		told{
			row:   thousands(l.opt.Waiting) + " deliveries wait: how many were due meanwhile",
			unit:  "1/s",
			of:    []string{"due/s"},
			aside: true,
		},
		told{
			row:  "a delivery that waits, in the engine's memory",
			unit: "bytes",
			of:   []string{"memory-bytes/waiting"},
		},
		told{
			row:  "a delivery that waits, on the engine's disk",
			unit: "bytes",
			of:   []string{"disk-bytes/waiting"},
		}))
}

func (l *lab) hangingSteps() []step {
	return l.goStep("hanging", 80*time.Second, goBench{
		dir:  benchFolder,
		name: "^BenchmarkFairness$",
		args: []string{"-test.benchtime=1x", "-paced=" + strconv.Itoa(l.opt.Healthy)},
	}, reads("Fairness",
		told{
			row:       "50 healthy endpoints beside 50 that hang, p99",
			unit:      "ms",
			of:        []string{"p99-ms-beside"},
			floorName: "the 50 alone",
			floor:     []string{"p99-ms-alone"},
			aim:       atMost(ofTimes, aimHanging, "times"),
		},
		told{
			row:       "50 healthy endpoints beside 50 that hang, p50",
			unit:      "ms",
			of:        []string{"p50-ms-beside"},
			floorName: "the 50 alone",
			floor:     []string{"p50-ms-alone"},
			aside:     true,
		}))
}

func (l *lab) rebuildSteps() []step {
	return l.goStep("rebuild", 40*time.Second, goBench{
		dir:  rebuildFolder,
		name: "^BenchmarkRebuild$",
		args: []string{"-test.benchtime=1x", "-facts=" + strconv.Itoa(l.opt.Facts)},
	}, reads("Rebuild", told{
		row:  "rebuild the history, facts",
		unit: "1/s",
		of:   []string{"facts/s"},
		aim:  atLeast(ofFigure, aimRebuild, "1/s"),
	}))
}

func (l *lab) apiSteps() []step {
	const bare = "a bare net/http server"
	rate := func(row string, bound float64) told {
		return told{
			row:       row,
			unit:      "1/s",
			of:        []string{"requests/s"},
			aim:       atLeast(ofFigure, bound, "1/s"),
			floorName: bare,
			floor:     []string{"bare-requests/s"},
		}
	}
	return l.goStep("api", 2*time.Minute, goBench{
		dir:  apiFolder,
		name: "^BenchmarkAPI$",
		args: []string{"-test.benchtime=1x"},
	}, both(
		reads("API/endpoints/128_at_once", rate("API, endpoints created, 128 at once", aimCreates)),
		reads("API/reads_of_an_endpoint/128_at_once",
			rate("API, authenticated reads of one, 128 at once", aimReads)),
		reads("API/one_endpoint_at_a_time/1_at_once", told{
			row:       "API, an endpoint created with nothing beside it, p99",
			unit:      "ms",
			of:        []string{"p99-ms"},
			aim:       atMost(ofFigure, aimLone, "ms"),
			floorName: bare,
			floor:     []string{"bare-p99-ms"},
		})))
}
