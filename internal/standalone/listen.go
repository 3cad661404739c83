package standalone

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// address returns the address to listen on for a flag; a default that is in use is
// replaced.
func (v *service) address(flag, address string) string {
	return freeAddress(address, v.flags.own.Changed(flag), func(from, to string) {
		note := fmt.Sprintf("%s is taken: --%s is %s this time", from, flag, to)
		v.out.Say("%s", note)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.moved = append(v.moved, note)
	})
}

// freeAddress returns the address to listen on: a default one that is in use is replaced by
// a free port, one that was set by a flag is left to fail.
func freeAddress(address string, asked bool, note func(from, to string)) string {
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close()
		return address
	}
	if asked || !errors.Is(err, syscall.EADDRINUSE) {
		return address
	}
	host, _, _ := net.SplitHostPort(address)
	other, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return address
	}
	defer other.Close()
	note(address, other.Addr().String())
	return other.Addr().String()
}
