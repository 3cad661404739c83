package clickhouse

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// selfExecutable is this very binary, even after a newer one took its name.
const selfExecutable = "/proc/self/exe"

// processIdentity is unique to a process: boot and start time. It is "" if the process does not
// exist or is a zombie.
func processIdentity(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the name in parentheses and may contain anything; from the third
	// on (proc(5)): state is the 3rd, starttime the 22nd.
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

// ownNiceness is this process's. The system call answers 20 less it, so as to be positive.
func ownNiceness() (int, error) {
	answer, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return 20 - answer, err
}
