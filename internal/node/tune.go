package node

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// leastProcs is how many goroutines may run at a time, at least, also on fewer processors. Go lets
// one run for 10 ms before another gets its place, so that on two places two pieces of background
// work (a compaction, a block for the history, the collector) hold up each step of a delivery for
// that long. With more places the kernel shares out the processors, by who has waited.
const leastProcs = 4

// Tune sets Go's runtime for a process that serves: how often it collects garbage, and how many
// goroutines run at a time. Who sets GOGC, GOMEMLIMIT or GOMAXPROCS decides that instead.
func Tune() {
	collectSeldom()
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	used := runtime.GOMAXPROCS(0)
	// Setting it, even to what it is, ends that Go follows a container's share as that changes.
	if want := procs(runtime.NumCPU(), used); want != used {
		runtime.GOMAXPROCS(want)
	}
}

// procs returns how many goroutines may run at a time on so many processors, of which Go would use
// some. If these are fewer, the container has a share of their time; more goroutines would use it
// up sooner, and then all would stand still until there is more.
func procs(processors, used int) int {
	if used < processors {
		return used
	}
	return max(used, leastProcs)
}

// collectPercent is by how much of what is alive the heap grows before garbage is collected, in
// place of Go's 100. Under load a service has some 100 MB alive and makes as much garbage in a
// second: with 100 the collector was at work for a seventh of the time, on two processors, and
// what was delivered meanwhile made the slowest hundredth.
const collectPercent = 300

// Files of Linux that say how much memory the container may take (cgroups of version 2), and how
// much the machine has.
const (
	containerFile = "/sys/fs/cgroup/memory.max"
	machineFile   = "/proc/meminfo"
)

// collectSeldom has a process that serves collect its garbage less often, for more memory, and
// more often again when its heap takes half of what its container may, or of what the machine has.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	container, _ := os.ReadFile(containerFile) // elsewhere than on Linux there are none
	machine, _ := os.ReadFile(machineFile)
	debug.SetMemoryLimit(heapOf(string(container), string(machine)))
}

// heapOf returns how much the heap may take by what those files say: half. The rest is for
// Pebble's caches, which are beside the heap, for what runs beside, and for the kernel.
func heapOf(container, machine string) int64 {
	most := int64(math.MaxInt64)
	limit, err := strconv.ParseInt(strings.TrimSpace(container), 10, 64)
	if err == nil && limit > 0 { // "max": there is none
		most = limit / 2
	}
	var kib int64
	if _, err := fmt.Sscanf(machine, "MemTotal: %d kB", &kib); err == nil && kib > 0 {
		most = min(most, kib<<10/2)
	}
	return most
}
