//go:build !linux

package subprocess

import "syscall"

// Killed does nothing where the kernel offers nothing.
func Killed() *syscall.SysProcAttr { return nil }
