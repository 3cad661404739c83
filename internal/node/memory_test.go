package node

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestHeapOf checks that the smaller of the control group's limit and the machine's memory counts,
// and that unknown values are no limit. The limits of parent groups count as well, like MemoryMax=
// of a slice.
func TestHeapOf(t *testing.T) {
	const machine = "MemTotal:        2097152 kB\nMemFree:          104000 kB\n"
	for _, c := range []struct {
		group, parent, machine string
		want                   int64
	}{
		{"268435456\n", "", machine, 128 << 20},
		{"max\n", "268435456\n", machine, 128 << 20},
		{"536870912\n", "268435456\n", machine, 128 << 20},
		{"268435456\n", "536870912\n", machine, 128 << 20},
		{"max\n", "max\n", machine, 1 << 30},
		{"8589934592\n", "", machine, 1 << 30},
		{"268435456\n", "", "", 128 << 20},
		{"-1", "", "nothing", math.MaxInt64},
		{"", "", "", math.MaxInt64},
	} {
		root := t.TempDir()
		unit := filepath.Join(root, "system.slice", "lumenhook.service")
		file := filepath.Join(root, "cgroup")
		err := errors.Join(
			os.MkdirAll(unit, 0o700),
			os.WriteFile(file, []byte("0::/system.slice/lumenhook.service\n"), 0o600),
			os.WriteFile(filepath.Join(unit, "memory.max"), []byte(c.group), 0o600),
			os.WriteFile(filepath.Join(filepath.Dir(unit), "memory.max"), []byte(c.parent), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		if got := heapOf(groupMemory(file, root), c.machine, 4); got != c.want {
			t.Errorf("%q in %q on %q: %d, want %d", c.group, c.parent, c.machine, got, c.want)
		}
	}
}
