package clickhouse

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// confineArg is the first argument that makes our binary confine itself and then exec another
// program. That program is confined from its first instruction on, with all of its threads.
const confineArg = "clickhouse-confined"

// confinement is the set of files and ports that the engine may access. ClickHouse's own privileges
// don't suffice: in `clickhouse local`, any user can read any file with the function file().
type confinement struct {
	Write []string `json:"write"` // files and folders to read and write
	Read  []string `json:"read"`  // files and folders to read and execute
	Ports []int    `json:"ports"` // ports to listen on; outgoing connections are never allowed
}

// confinedCommand returns the command that runs a program confined to its data folder, the programs
// and libraries of this machine, and its two ports.
func confinedCommand(
	p Program, f folder, l listen, program string, args []string,
) ([]string, error) {
	c := confinement{
		Write: []string{string(f), "/dev/null"},
		Read: []string{
			"/usr", "/lib", "/lib64", "/bin", "/nix/store", "/sys",
			"/dev/urandom", "/dev/random", "/dev/zero",
			"/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/loadavg",
			"/proc/uptime", "/proc/sys", "/proc/version",
			"/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/etc/timezone",
			"/etc/nsswitch.conf", "/etc/hosts",
			selfExecutable,
		},
		Ports: []int{l.nativePort, l.httpPort},
	}
	for _, list := range []string{os.Getenv("LD_LIBRARY_PATH"), os.Getenv("DYLD_LIBRARY_PATH")} {
		c.Read = append(c.Read, filepath.SplitList(list)...)
	}
	if p.Binary != "" {
		c.Read = append(c.Read, filepath.Dir(p.Binary))
	}
	for _, file := range []string{p.Binary, p.Library} {
		if file != "" {
			c.Read = append(c.Read, file)
		}
	}
	spec, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return append([]string{confineArg, string(spec), program}, args...), nil
}

// confinedMain confines this process and execs args[1] with the remaining arguments. It returns
// only if that fails.
func confinedMain(args []string) int {
	var c confinement
	err := fmt.Errorf("usage: %s CONFINEMENT PROGRAM [ARGUMENT]... (started by lumenhook run, not "+
		"by people)", confineArg)
	if len(args) >= 2 {
		err = json.Unmarshal([]byte(args[0]), &c)
	}
	if err == nil {
		err = c.apply()
	}
	if err == nil {
		// #nosec G204 G702 -- the engine that our own parent named.
		err = fmt.Errorf("%s: %w", args[1], syscall.Exec(args[1], args[1:], os.Environ()))
	}
	fmt.Fprintln(os.Stderr, "starting the ClickHouse engine confined:", err)
	return 1
}
