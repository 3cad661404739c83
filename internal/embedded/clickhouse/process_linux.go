package clickhouse

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// selfExecutable is this binary, even if a newer one has replaced it on disk.
const selfExecutable = "/proc/self/exe"

// processIdentity returns a value that is unique to a process: the boot id and its start time. It
// returns "" if the process doesn't exist or is a zombie.
func processIdentity(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the name in parentheses, which may contain anything. After it (proc(5)),
	// state is the 3rd field and starttime the 22nd.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[19]
}

func dupOnto(from, to int) error { return unix.Dup3(from, to, 0) }

// ownNiceness returns this process's niceness. The system call returns 20 minus the niceness, so
// that it is positive.
func ownNiceness() (int, error) {
	answer, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return 20 - answer, err
}
