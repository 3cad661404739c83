package node

import (
	"fmt"
	"math"
	"os"
	"path"
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

// Linux files with the control group of this process, the control groups' limits (cgroups version
// 2), and the machine's memory.
const (
	groupFile   = "/proc/self/cgroup"
	groupsDir   = "/sys/fs/cgroup"
	machineFile = "/proc/meminfo"
)

// collectSeldom makes the process collect garbage less often, at the cost of memory. It collects
// more often again when the heap reaches its share of the control group's limit or of the machine's
// memory.
func collectSeldom(eighths int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	machine, _ := os.ReadFile(machineFile) // missing on systems other than Linux
	debug.SetMemoryLimit(heapOf(GroupMemory(), string(machine), eighths))
}

// GroupMemory returns the memory limit of this process's control group in bytes, or 0 for no limit.
// It is the lowest limit of the group and its parents: a container's, or MemoryMax= of a unit.
func GroupMemory() int64 { return groupMemory(groupFile, groupsDir) }

func groupMemory(file, root string) (lowest int64) {
	text, _ := os.ReadFile(file) // missing on systems other than Linux
	_, group, _ := strings.Cut(string(text), "0::")
	group, _, _ = strings.Cut(group, "\n")
	for dir := path.Join("/", group); ; dir = path.Dir(dir) {
		text, _ := os.ReadFile(path.Join(root, dir, "memory.max")) // #nosec G703 -- named by the kernel
		// "max" fails to parse, and means no limit.
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && limit > 0 && (lowest == 0 || limit < lowest) {
			lowest = limit
		}
		if dir == "/" {
			return lowest
		}
	}
}

// heapOf returns the heap limit for a group's limit and the contents of machineFile. The rest is
// for Pebble's caches, which are outside the heap, for other processes, and for the kernel.
func heapOf(group int64, machine string, eighths int64) int64 {
	most := int64(math.MaxInt64)
	if group > 0 {
		most = group / 8 * eighths
	}
	var kib int64
	if _, err := fmt.Sscanf(machine, "MemTotal: %d kB", &kib); err == nil && kib > 0 {
		most = min(most, kib<<10/8*eighths)
	}
	return most
}
