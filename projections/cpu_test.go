package projections_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// ticksPerSecond is USER_HZ, which is 100 on every Linux that Go runs on.
const ticksPerSecond = 100

func processCPU(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+2:])
	var ticks int64
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(string(field), 10, 64)
		must(t, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
