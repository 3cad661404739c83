package standalone

import (
	"errors"
	"net"
	"syscall"
)

// address is where to listen by a flag; a taken default is stepped over.
func (v *service) address(flag, address string) string {
	return freeAddress(address, v.flags.changed(flag), func(from, to string) {
		v.out.Say("%s is taken: --%s is %s this time", from, flag, to)
	})
}

// freeAddress is the address to listen on: a default one that is taken is
// stepped over to a free port, one that was asked for is left to fail.
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
