package clickhouse

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var selfExecutable = func() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}()

// processIdentity returns a value that is unique to a process: its start time in microseconds. It
// returns "" if the process doesn't exist or is a zombie.
func processIdentity(pid int) string {
	const zombie = 5 // SZOMB in sys/proc.h
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || info.Proc.P_stat == zombie {
		return ""
	}
	return fmt.Sprintf("%d.%06d", info.Proc.P_starttime.Sec, info.Proc.P_starttime.Usec)
}

func dupOnto(from, to int) error { return unix.Dup2(from, to) }

func ownNiceness() (int, error) { return unix.Getpriority(unix.PRIO_PROCESS, 0) }
