//go:build !linux

package subprocess

import "syscall"

// Killed returns nil because only Linux can kill a process when its parent dies.
func Killed() *syscall.SysProcAttr { return nil }
