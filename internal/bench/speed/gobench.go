package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/perf/benchfmt"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

// goBench is a benchmark of the repository's packages, which is run as it is.
type goBench struct {
	dir  string   // of its package, from the module's root
	name string   // a regular expression
	args []string // beside those of the program that is tested
}

// benchmark is what one of them reported, by unit.
type benchmark struct {
	name  string // without "Benchmark" and the number of processors
	units map[string]float64
}

// runGo builds the package's tests once, and runs a benchmark of them.
func (l *lab) runGo(ctx context.Context, b goBench) (all []benchmark, err error) {
	program, err := l.buildGo(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	l.children++
	p, err := measuring.Begin[event](measuring.Command{
		Program: program,
		Args: append([]string{
			"-test.v", "-test.run=^$", "-test.bench=" + b.name, "-test.timeout=1h", "-test.count=1",
		}, b.args...),
		Dir: filepath.Join(l.root, b.dir),
		Log: filepath.Join(l.dir, fmt.Sprintf("benchmark-%d.log", l.children)),
	})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Stop(syscall.SIGTERM) })
	defer stop()
	<-p.Ended
	if p.Err != nil {
		return nil, fmt.Errorf("%s of %s: %w; see %s", b.name, b.dir, p.Err, p.Log())
	}
	all, err = readBenchmarks(p.Log())
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no benchmark %s", b.dir, b.name)
	}
	return all, err
}

// buildGo builds the tests of a package as a program.
func (l *lab) buildGo(ctx context.Context, dir string) (program string, err error) {
	if program = l.programs[dir]; program != "" {
		return program, nil
	}
	if l.root == "" {
		mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
		if err != nil {
			return "", err
		}
		l.root = filepath.Dir(strings.TrimSpace(string(mod)))
	}
	program = filepath.Join(l.dir, strings.ReplaceAll(dir, "/", "-")+".test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./"+dir) // #nosec G204 G702
	build.Dir = l.root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the tests of %s: %w\n%s", dir, err, out)
	}
	if l.programs == nil {
		l.programs = make(map[string]string)
	}
	l.programs[dir] = program
	return program, nil
}

// processors are at the end of a benchmark's name.
var processors = regexp.MustCompile(`-\d+$`)

// readBenchmarks reads what a test program printed. Units are as they were reported.
func readBenchmarks(file string) (all []benchmark, err error) {
	f, err := os.Open(file) // #nosec G304 -- the lab's own
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := benchfmt.NewReader(f, file)
	for in.Scan() {
		r, is := in.Result().(*benchfmt.Result)
		if !is {
			continue // a line of another kind
		}
		b := benchmark{
			name:  processors.ReplaceAllString(r.Name.String(), ""),
			units: make(map[string]float64),
		}
		for _, v := range r.Values {
			b.units[v.Unit] = v.Value
			if v.OrigUnit != "" {
				b.units[v.OrigUnit] = v.OrigValue
			}
		}
		all = append(all, b)
	}
	return all, in.Err()
}

// one returns the benchmark with a name.
func one(all []benchmark, name string) (benchmark, error) {
	for _, b := range all {
		if b.name == name {
			return b, nil
		}
	}
	var names []string
	for _, b := range all {
		names = append(names, b.name)
	}
	return benchmark{}, fmt.Errorf("there is no Benchmark%s among %v", name, names)
}

// unit returns the value of the first of these units that it reported.
func (b benchmark) unit(names ...string) (float64, error) {
	for _, name := range names {
		if v, is := b.units[name]; is {
			return v, nil
		}
	}
	var has []string
	for name := range b.units {
		has = append(has, name)
	}
	slices.SortFunc(has, cmp.Compare[string])
	return 0, fmt.Errorf("the benchmark %s reports no %s; it has %s", b.name,
		strings.Join(names, " or "), strings.Join(has, ", "))
}

// told is a figure that a benchmark is to report.
type told struct {
	row, unit string
	of        []string // the benchmark's unit, by any of these names
	scale     float64  // of the benchmark's unit; 0: 1
	aim       aim
	floorName string
	floor     []string // the benchmark's unit of the floor, if it has one
	aside     bool
}

// figuresOf reads figures of a benchmark; those that it does not report are a fault, and the
// others are there.
func figuresOf(b benchmark, want []told) (list []figure, err error) {
	for _, t := range want {
		v, fault := b.unit(t.of...)
		if fault != nil {
			err = errors.Join(err, fault)
			continue
		}
		scale := cmp.Or(t.scale, 1)
		f := figure{Row: t.row, Unit: t.unit, Value: v * scale, Aim: t.aim, Aside: t.aside}
		if len(t.floor) > 0 {
			if f.Floor, fault = b.unit(t.floor...); fault != nil {
				err = errors.Join(err, fault)
				continue
			}
			f.FloorName, f.Floor = t.floorName, f.Floor*scale
		}
		list = append(list, f)
	}
	return list, err
}
