package clickhouse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock (landlock(7)) lets an unprivileged Linux process irrevocably give up access: to files
// since Linux 5.13, to TCP since 6.7.
const (
	landlockNet   = 4 // first ABI version with TCP
	landlockScope = 6 // first ABI version with signals

	netRulePort = 2 // LANDLOCK_RULE_NET_PORT

	readFile    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	readFolder  = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	writeFolder = writeFile | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	// never is not granted on any path.
	never = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO
)

// confinementVersion returns the kernel's Landlock ABI version, or 0 without Landlock.
func confinementVersion() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0,
		unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// renameRights returns the rights to move and truncate files in an ABI version.
func renameRights(version int) (rights uint64) {
	if version >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	return rights
}

// rulesetAttr returns the rights to give up, and the size of the structure in an ABI version.
func rulesetAttr(version int) (attr unix.LandlockRulesetAttr, size uintptr) {
	attr.Handled_access_fs, size = readFolder|writeFolder|never|renameRights(version), 8
	if version >= landlockNet {
		const connections = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		attr.Handled_access_net, size = connections, 16
	}
	if version >= landlockScope {
		attr.Scoped, size = unix.LANDLOCK_SCOPE_SIGNAL|unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, 24
	}
	return attr, size
}

// apply confines the calling thread, including the program that it execs. On a kernel without
// Landlock it does nothing.
func (c confinement) apply() error {
	version := confinementVersion()
	if version == 0 {
		return nil
	}
	runtime.LockOSThread()
	attr, size := rulesetAttr(version)
	// #nosec G103 -- a structure for the kernel.
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)),
		size, 0)
	if errno != 0 {
		return fmt.Errorf("making a Landlock ruleset: %w", errno)
	}
	defer unix.Close(int(ruleset))
	for _, path := range c.Read {
		if err := allowTree(ruleset, path, readFile, readFolder); err != nil {
			return err
		}
	}
	for _, path := range c.Write {
		ofFile := writeFile | renameRights(version)&^unix.LANDLOCK_ACCESS_FS_REFER
		ofFolder := writeFolder | renameRights(version)
		if err := allowTree(ruleset, path, ofFile, ofFolder); err != nil {
			return err
		}
	}
	if attr.Handled_access_net != 0 {
		for _, port := range c.Ports {
			if err := allowPort(ruleset, port); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("restricting this process by Landlock: %w", errno)
	}
	return nil
}

// allowTree grants rights on a file, or on a folder and everything below it. It ignores a
// missing path.
func allowTree(ruleset uintptr, path string, ofFile, ofFolder uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: ofFile, Parent_fd: int32(fd)}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		rule.Allowed_access = ofFolder
	}
	// #nosec G103 -- a structure for the kernel.
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("a Landlock rule for %s: %w", path, errno)
	}
	return nil
}

func allowPort(ruleset uintptr, port int) error {
	rule := struct{ access, port uint64 }{unix.LANDLOCK_ACCESS_NET_BIND_TCP, uint64(port)}
	// #nosec G103 -- a structure for the kernel.
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, netRulePort,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("a Landlock rule for port %d: %w", port, errno)
	}
	return nil
}
