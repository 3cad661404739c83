package node

import (
	"os"
	"runtime"
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
