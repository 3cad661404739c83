package subprocess

import "syscall"

// Killed makes the kernel kill the process when its parent dies. The kernel watches the thread that
// starts the process, so lock it with runtime.LockOSThread.
func Killed() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
