//go:build !linux

package kafkatest

import "syscall"

// endWithParent does nothing where the kernel offers nothing: a test binary that
// is killed leaves its brokers behind there.
func endWithParent() *syscall.SysProcAttr { return nil }
