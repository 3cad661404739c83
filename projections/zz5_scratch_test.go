//go:build zz

package projections_test

import (
	"os"
	"strconv"
	"strings"
	"slices"
	"time"
)

func timed(f func()) float64 {
	b := time.Now()
	f()
	return float64(time.Since(b).Microseconds()) / 1000
}
func sortFloats(f []float64) { slices.Sort(f) }

func zzCPU(pid string) float64 {
	var s int64
	ts, _ := os.ReadDir("/proc/" + pid + "/task")
	for _, e := range ts {
		b, _ := os.ReadFile("/proc/" + pid + "/task/" + e.Name() + "/schedstat")
		f := strings.Fields(string(b))
		if len(f) > 0 {
			n, _ := strconv.ParseInt(f[0], 10, 64)
			s += n
		}
	}
	return float64(s) / 1e6
}
