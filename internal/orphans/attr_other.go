//go:build !linux

package orphans

import "syscall"

// Killed does nothing where the kernel offers nothing.
func Killed() *syscall.SysProcAttr { return nil }
