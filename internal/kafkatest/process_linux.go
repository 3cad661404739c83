package kafkatest

import "syscall"

// endWithParent has the kernel kill the process when its parent dies.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
