package node

import (
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

// limitFile says how much memory the container may take, by Linux's cgroups of version 2.
const limitFile = "/sys/fs/cgroup/memory.max"

// CollectSeldom has a process that serves collect its garbage less often, for more memory, and
// as often as ever when its heap takes half of what its container may. Who sets GOGC or GOMEMLIMIT
// decides that instead.
func CollectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if text, err := os.ReadFile(limitFile); err == nil {
		if most, limited := heapOf(string(text)); limited {
			debug.SetMemoryLimit(most)
		}
	}
}

// heapOf returns how much the heap may take by what the file of a container's limit says: half.
// The rest is for Pebble's caches, which are beside the heap, and for the kernel's share.
func heapOf(limit string) (most int64, limited bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(limit), 10, 64)
	if err != nil || n <= 0 { // "max": there is none
		return 0, false
	}
	return n / 2, true
}
