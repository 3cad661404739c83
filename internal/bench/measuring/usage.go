package measuring

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksASecond is the unit of processor time in /proc on every Linux that Go runs on.
const ticksASecond = 100

// ProcessorTime is what a process has used so far.
func ProcessorTime(pid int) (time.Duration, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	const user, system = 11, 12
	var ticks int64
	for _, at := range []int{user, system} {
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksASecond, nil
}

// stat are the fields of a process behind its name: state, parent, and on.
func stat(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// A name may contain what ends it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const needed = 13
	if len(fields) < needed {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// Descendants are the processes that a process started, and those that they did.
func Descendants(pid int) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	children := make(map[int][]int)
	for _, f := range folders {
		child, _ := strconv.Atoi(filepath.Base(f))
		fields, err := stat(child)
		if err != nil {
			continue // it has ended meanwhile
		}
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], child)
	}
	for of := []int{pid}; len(of) > 0; of = of[1:] {
		pids, of = append(pids, children[of[0]]...), append(of, children[of[0]]...)
	}
	return pids
}

// ResidentMiB is the memory that a process has in use.
func ResidentMiB(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, err
	}
	return resident * float64(os.Getpagesize()) / (1 << 20), nil
}

// MostResidentMiB is the most memory that a process ever had in use.
func MostResidentMiB(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, most, found := strings.Cut(string(text), "\nVmHWM:")
	var kib float64
	if _, err := fmt.Sscan(most, &kib); !found || err != nil {
		return 0, fmt.Errorf("/proc/%d/status has no VmHWM: %w", pid, err)
	}
	return kib / 1024, nil
}
