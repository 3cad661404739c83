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
// 10 ms before another gets its place, so with two places two pieces of background work (a
// compaction, a block for the history, the collector) delay each step of a delivery for that long.
// With more places the kernel shares the processors, by waiting time.
const leastProcs = 4

// Tune sets Go's runtime for a process that serves: how often it collects garbage, and how many
// goroutines run at a time. GOGC, GOMEMLIMIT and GOMAXPROCS take precedence.
func Tune() {
	collectSeldom()
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	used := runtime.GOMAXPROCS(0)
	// Setting it, even to the same value, stops Go from following changes of a container's share.
	if want := procs(runtime.NumCPU(), used); want != used {
		runtime.GOMAXPROCS(want)
	}
}

// procs returns how many goroutines may run at a time on so many processors, of which Go would use
// some. If these are fewer, the container has a share of their time. More goroutines would use it
// up sooner, and then all would stop until there is more.
func procs(processors, used int) int {
	if used < processors {
		return used
	}
	return max(used, leastProcs)
}

// collectPercent is by how much of the live heap the heap grows before garbage is collected,
// instead of Go's 100. Under load a service has about 100 MB alive and makes as much garbage in a
// second: with 100 the collector worked for a seventh of the time, on two processors, and the
// deliveries during that time were the slowest hundredth.
const collectPercent = 300

// Files of Linux with the memory limit of the container (cgroups version 2), and the memory of the
// machine.
const (
	containerFile = "/sys/fs/cgroup/memory.max"
	machineFile   = "/proc/meminfo"
)

// collectSeldom makes a process that serves collect its garbage less often, for more memory, and
// more often again when its heap takes half of the limit of its container, or of the machine's
// memory.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	container, _ := os.ReadFile(containerFile) // not on other systems than Linux
	machine, _ := os.ReadFile(machineFile)
	debug.SetMemoryLimit(heapOf(string(container), string(machine)))
}

// heapOf returns the heap's limit by the content of those files: half. The rest is for Pebble's
// caches, which are outside the heap, for other processes, and for the kernel.
func heapOf(container, machine string) int64 {
	most := int64(math.MaxInt64)
	limit, err := strconv.ParseInt(strings.TrimSpace(container), 10, 64)
	if err == nil && limit > 0 { // "max" means no limit
		most = limit / 2
	}
	var kib int64
	if _, err := fmt.Sscanf(machine, "MemTotal: %d kB", &kib); err == nil && kib > 0 {
		most = min(most, kib<<10/2)
	}
	return most
}
