package subprocess

import "syscall"

// Killed makes the kernel kill the process when its parent dies.
func Killed() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
