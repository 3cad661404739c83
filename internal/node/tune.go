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

// leastProcs is the minimum of GOMAXPROCS, even with fewer processors. Go lets a goroutine run for
// 10 ms before another gets its place. With only two places, two background tasks (a compaction, a
// history block, the garbage collector) delay each step of a delivery by that long. With more
// places, the kernel shares the processors by waiting time.
const leastProcs = 4

// Tune sets Go's runtime for a process that serves: how often it collects garbage, and how many
// goroutines run at a time. Its heap may grow to an eighth of the memory times eighths. GOGC,
// GOMEMLIMIT and GOMAXPROCS take precedence.
func Tune(eighths int64) {
	collectSeldom(eighths)
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	used := runtime.GOMAXPROCS(0)
	// Setting GOMAXPROCS, even to the same value, stops Go from adapting to changes of the
	// container's CPU limit.
	if want := procs(runtime.NumCPU(), used); want != used {
		runtime.GOMAXPROCS(want)
	}
}

// procs returns the GOMAXPROCS for a number of processors. used is Go's own choice. If it is lower
// than the number of processors, the container has a CPU limit. More goroutines would then use up
// the limit sooner and pause together until it is renewed.
func procs(processors, used int) int {
	if used < processors {
		return used
	}
	return max(used, leastProcs)
}

// collectPercent is how much the heap may grow, relative to the live heap, before garbage is
// collected (Go's default is 100). Under load, a service has about 100 MB alive and produces as
// much garbage per second. With 100, the collector ran for a seventh of the time on two processors,
// and the deliveries during that time were the slowest 1%.
const collectPercent = 300

// Linux files with the container's memory limit (cgroups version 2) and the machine's memory.
const (
	containerFile = "/sys/fs/cgroup/memory.max"
	machineFile   = "/proc/meminfo"
)

// collectSeldom makes a process that serves collect its garbage less often, for more memory, and
// more often again when its heap takes its part of the limit of its container, or of the machine's
// memory.
func collectSeldom(eighths int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	container, _ := os.ReadFile(containerFile) // missing on systems other than Linux
	machine, _ := os.ReadFile(machineFile)
	debug.SetMemoryLimit(heapOf(string(container), string(machine), eighths))
}

// heapOf returns the heap's limit by the content of those files. The rest is for Pebble's caches,
// which are outside the heap, for other processes, and for the kernel.
func heapOf(container, machine string, eighths int64) int64 {
	most := int64(math.MaxInt64)
	limit, err := strconv.ParseInt(strings.TrimSpace(container), 10, 64)
	if err == nil && limit > 0 { // "max" means no limit
		most = limit / 8 * eighths
	}
	var kib int64
	if _, err := fmt.Sscanf(machine, "MemTotal: %d kB", &kib); err == nil && kib > 0 {
		most = min(most, kib<<10/8*eighths)
	}
	return most
}
