package subprocess

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// Listener returns the program that listens on an address, such as "python3 (process 123)". If
// /proc doesn't exist or can't be read, it returns "another program".
func Listener(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return "another program"
	}
	sockets := map[string]bool{} // their links in /proc/*/fd
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // if this fails, no sockets are found
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == listening && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", at.Port())) {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, file := range open {
		if link, err := os.Readlink(file); err == nil && sockets[link] {
			process := filepath.Dir(filepath.Dir(file))
			name, _ := os.ReadFile(filepath.Join(process, "comm"))
			return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(process))
		}
	}
	return "another program"
}
