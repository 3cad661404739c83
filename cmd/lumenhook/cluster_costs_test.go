//go:build kafka

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// established is the state of an open connection in the tables of proc(5).
const established = "01"

// connections counts a process's connections to the brokers, using proc(5).
func (s *site) connections(r *role) int {
	s.t.Helper()
	ports := make(map[string]bool)
	for _, addr := range slices.Concat(s.cluster.Addrs(), s.cluster.MutualAddrs()) {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			s.t.Fatal(err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			s.t.Fatal(err)
		}
		ports[fmt.Sprintf("%04X", n)] = true
	}
	toBrokers := make(map[string]bool) // by inode
	for _, table := range []string{"tcp", "tcp6"} {
		s.eachSocket(table, func(remote, state, inode string) {
			_, port, _ := strings.Cut(remote, ":")
			if state == established && ports[port] {
				toBrokers["socket:["+inode+"]"] = true
			}
		})
	}
	return s.holds(r, toBrokers)
}

func (s *site) eachSocket(table string, take func(remote, state, inode string)) {
	s.t.Helper()
	file, err := os.Open(filepath.Join("/proc/net", table))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) > 9 {
			take(f[2], f[3], f[9])
		}
	}
	if err := lines.Err(); err != nil {
		s.t.Fatal(err)
	}
}

// holds counts the open files of a process that are in among.
func (s *site) holds(r *role, among map[string]bool) (n int) {
	s.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", r.serving())
	files, err := os.ReadDir(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && among[to] {
			n++
		}
	}
	return n
}

// mostMemory returns the peak memory of a process since its start, in MiB.
func (s *site) mostMemory(r *role) int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.serving()))
	if err != nil {
		s.t.Fatal(err)
	}
	var kib int
	_, most, found := strings.Cut(string(status), "\nVmHWM:")
	if _, err := fmt.Sscan(most, &kib); !found || err != nil {
		s.t.Fatalf("the status of %s has no VmHWM: %v", r.name, err)
	}
	return kib >> 10
}
