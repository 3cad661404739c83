package node

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

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
