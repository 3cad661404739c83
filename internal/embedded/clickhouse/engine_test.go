package clickhouse_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// parentArg makes the test binary a parent that starts an engine and waits to be killed.
const parentArg = "test-parent"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == parentArg {
		os.Exit(parentMain(os.Args[2], os.Args[3]))
	}
	clickhousetest.Main(m)
}

func parentMain(lib, dataDir string) int {
	e, err := clickhouse.Start(context.Background(), clickhouse.Config{
		Program: clickhouse.Program{Library: lib},
		DataDir: dataDir,
		Grants:  clickhousetest.Grants(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"pid": e.PID(), "dsn": e.DSN()})
	select {} // until killed
}

func connect(t *testing.T, dsn string) driver.Conn {
	t.Helper()
	opts, err := driver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	opts.DialTimeout, opts.ReadTimeout = patience, patience
	conn, err := driver.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// patience is long enough for a busy machine.
const patience = 3 * time.Minute

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func insert(ctx context.Context, conn driver.Conn, from, count uint64) error {
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO rows (n, at)")
	if err != nil {
		return err
	}
	for n := from; n < from+count; n++ {
		if err := batch.Append(n, time.UnixMilli(int64(n)).UTC()); err != nil {
			return err
		}
	}
	return batch.Send()
}

const rowsTable = "CREATE TABLE rows (n UInt64, at DateTime64(3)) ENGINE = MergeTree ORDER BY n"

func sumOf(t *testing.T, conn driver.Conn) (count, sum uint64) {
	t.Helper()
	must(t,
		conn.QueryRow(deadline(t), "SELECT count(), sum(n) FROM rows").Scan(&count, &sum))
	return count, sum
}

func TestRestartOnTheSameFolderKeepsWhatWasWritten(t *testing.T) {
	cfg := clickhouse.Config{
		Program:  clickhousetest.Program(t),
		DataDir:  t.TempDir(),
		Database: "history",
		Grants:   clickhousetest.ServiceGrants("history"),
		Logger:   clickhousetest.Logger(t),
	}
	ctx := deadline(t)
	e, err := clickhouse.Start(ctx, cfg)
	must(t, err)
	conn := connect(t, e.DSN())
	must(t, conn.Exec(ctx, rowsTable))
	must(t, insert(ctx, conn, 0, 1000))
	begun := time.Now()
	must(t, e.Stop())
	t.Logf("stopped in %s", time.Since(begun))
	if conn.Ping(ctx) == nil {
		t.Fatal("the server still answers after Stop")
	}

	begun = time.Now()
	e, err = clickhouse.Start(ctx, cfg)
	must(t, err)
	t.Logf("started in %s", time.Since(begun))
	defer e.Stop()
	conn = connect(t, e.DSN())
	if count, sum := sumOf(t, conn); count != 1000 || sum != 999*1000/2 {
		t.Fatalf("got %d rows that add up to %d", count, sum)
	}
	var engine, zone string
	must(t,
		conn.QueryRow(ctx,
			"SELECT engine, timezone() FROM system.databases WHERE name = currentDatabase()").Scan(&engine,
			&zone))
	if engine != "Atomic" || zone != "UTC" {
		t.Fatalf("the database has engine %s, the server is in %s", engine, zone)
	}
}

func TestKilledDuringInsertsComesBackWithEveryAcknowledgedRow(t *testing.T) {
	e := clickhousetest.Start(t)
	ctx := deadline(t)
	conn := connect(t, e.DSN())
	must(t, conn.Exec(ctx, rowsTable))
	native, kills := e.NativeAddr(), int64(3)
	var acknowledged uint64
	const block = 500
	for kill := range kills {
		enough := acknowledged + 20*block
		for {
			if pid := e.PID(); acknowledged == enough { // kill it during the next inserts, not between them
				go func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
			}
			if err := insert(ctx, conn, acknowledged, block); err != nil {
				break
			}
			acknowledged += block
		}
		testkit.Eventually(t, "the child is started again", func() bool {
			return e.Restarts() == kill+1 && e.Ready(ctx) == nil
		})
		// The interrupted block is either complete or missing.
		count, sum := sumOf(t, conn)
		if count != acknowledged && count != acknowledged+block {
			t.Fatalf("%d rows were acknowledged, %d are there", acknowledged, count)
		}
		if sum != count*(count-1)/2 {
			t.Fatalf("%d rows add up to %d", count, sum)
		}
		acknowledged = count
	}
	if e.NativeAddr() != native {
		t.Fatalf("the address moved from %s to %s", native, e.NativeAddr())
	}
}

func TestHungChildIsReplaced(t *testing.T) {
	e := clickhousetest.StartWith(t, clickhouse.Config{
		Program:        clickhousetest.Program(t),
		DataDir:        t.TempDir(),
		HealthInterval: 50 * time.Millisecond,
		HangAfter:      500 * time.Millisecond,
	})
	hung := e.PID()
	must(t, syscall.Kill(hung, syscall.SIGSTOP))
	ctx := deadline(t)
	testkit.Eventually(t, "another child serves", func() bool {
		return e.Restarts() >= 1 && e.Ready(ctx) == nil && e.PID() != hung
	})
	if alive(hung) {
		t.Fatal("the hung child is still there")
	}
	must(t, connect(t, e.DSN()).Ping(ctx))
}

// Every thread of a serving child has the lower priority, even after a restart and even if it was
// started later.
func TestNiceness(t *testing.T) {
	e := clickhousetest.StartWith(t, clickhouse.Config{
		Program:        clickhousetest.Program(t),
		DataDir:        t.TempDir(),
		HealthInterval: 50 * time.Millisecond,
		Niceness:       3,
	})
	ctx := deadline(t)
	nice := func() {
		t.Helper()
		before := nicenesses(t, e.PID())
		for range 40 {
			must(t, connect(t, e.DSN()).Ping(ctx)) // each connection has its own thread
		}
		after := nicenesses(t, e.PID())
		want := min(nicenesses(t, os.Getpid())[0]+3, 19) // the lowest priority, setpriority(2)
		if i := slices.IndexFunc(after, func(n int) bool { return n != want }); i >= 0 {
			t.Errorf("a thread has niceness %d, want %d", after[i], want)
		}
		if len(after) <= len(before) {
			t.Errorf("%d threads, no more than before", len(after))
		}
	}
	nice()
	first := e.PID()
	must(t, syscall.Kill(first, syscall.SIGKILL))
	testkit.Eventually(t, "another child serves", func() bool {
		return e.Restarts() >= 1 && e.Ready(ctx) == nil && e.PID() != first
	})
	nice()
}

// nicenesses returns the nice values of a process's threads (proc(5), the 19th field of stat).
func nicenesses(t *testing.T, pid int) (out []int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	must(t, err)
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		must(t, err)
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		n, err := strconv.Atoi(fields[19-3])
		must(t, err)
		out = append(out, n)
	}
	return out
}

// startParent starts a process that owns an engine. It returns the process, and the engine's
// process and DSN.
func startParent(t *testing.T, dataDir string) (parent *exec.Cmd, enginePID int, dsn string) {
	t.Helper()
	program := clickhousetest.Program(t)
	parent = exec.Command(os.Args[0], parentArg, program.Library, dataDir)
	parent.Stderr = t.Output()
	out, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	t.Cleanup(func() { _ = parent.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	must(t, err)
	var said struct {
		PID int
		DSN string
	}
	must(t, json.Unmarshal(line, &said))
	t.Cleanup(func() { _ = syscall.Kill(said.PID, syscall.SIGKILL) })
	return parent, said.PID, said.DSN
}

func TestChildEndsWhenItsParentIsKilled(t *testing.T) {
	parent, child, dsn := startParent(t, t.TempDir())
	// A long query must not keep the child alive.
	conn := connect(t, dsn)
	go func() {
		_ = conn.Exec(context.Background(),
			"SELECT sleepEachRow(1) FROM numbers(60) SETTINGS max_block_size = 1")
	}()
	other := connect(t, dsn)
	testkit.Eventually(t, "the long query runs", func() bool {
		var running uint64
		must(t,
			other.QueryRow(t.Context(),
				"SELECT count() FROM system.processes WHERE query LIKE 'SELECT sleepEachRow%'").Scan(&running))
		return running == 1
	})
	must(t, parent.Process.Kill())
	_ = parent.Wait()
	begun := time.Now()
	testkit.Eventually(t, "the child is gone", func() bool { return !alive(child) })
	t.Logf("gone after %s", time.Since(begun))
}

func TestChildLeftBehindIsEndedAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	parent, child, _ := startParent(t, dir)
	must(t, syscall.Kill(child, syscall.SIGSTOP)) // so that it outlives its parent
	must(t, parent.Process.Kill())
	_ = parent.Wait()
	// The kernel resumes the stopped members of an orphaned process group.
	must(t, syscall.Kill(child, syscall.SIGSTOP))
	testkit.Eventually(t, "the child outlives its parent, stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
	e := clickhousetest.StartWith(t,
		clickhouse.Config{Program: clickhousetest.Program(t), DataDir: dir})
	if alive(child) {
		t.Fatal("the child of the earlier run is still there")
	}
	must(t, connect(t, e.DSN()).Ping(deadline(t)))
}

func TestRecordOfAnotherProcessEndsNobody(t *testing.T) {
	dir := t.TempDir()
	bystander := exec.Command("sleep", "60")
	must(t, bystander.Start())
	defer bystander.Wait()
	defer bystander.Process.Kill()
	// The process id once belonged to a child. The start time shows that it is now a different
	// process.
	record := fmt.Sprintf(`{"pid":%d,"identity":"an earlier boot/12345"}`, bystander.Process.Pid)
	must(t, os.WriteFile(filepath.Join(dir, "engine.json"), []byte(record), 0o600))
	clickhousetest.StartWith(t, clickhouse.Config{Program: clickhousetest.Program(t), DataDir: dir})
	if !alive(bystander.Process.Pid) {
		t.Fatal("a process that is not ours was ended")
	}
}

func TestTwoEnginesSideBySideOnLoopbackOnly(t *testing.T) {
	a, b := clickhousetest.Start(t), clickhousetest.Start(t)
	ctx := deadline(t)
	for i, e := range []*clickhouse.Engine{a, b} {
		conn := connect(t, e.DSN())
		must(t, conn.Exec(ctx, rowsTable))
		must(t, insert(ctx, conn, 0, uint64(10*(i+1))))
	}
	for i, e := range []*clickhouse.Engine{a, b} {
		if count, _ := sumOf(t, connect(t, e.DSN())); count != uint64(10*(i+1)) {
			t.Errorf("engine %d has %d rows", i, count)
		}
		listening := listeners(t, e.PID())
		if len(listening) != 2 {
			t.Errorf("engine %d listens on %v, want its two ports only", i, listening)
		}
		for _, ip := range listening {
			if !ip.IsLoopback() {
				t.Errorf("engine %d listens on %s", i, ip)
			}
		}
	}
}

// listeners returns the local addresses of a process's listening TCP sockets.
func listeners(t *testing.T, pid int) []net.IP {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	owned := map[string]bool{}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil {
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				owned[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var found []net.IP
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		must(t, err)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			const listenState = "0A"
			if len(f) < 10 || f[3] != listenState || !owned[f[9]] {
				continue
			}
			found = append(found, parseProcIP(t, f[1]))
		}
	}
	return found
}

// parseProcIP parses "0100007F:1F90": 32-bit words in the machine's byte order (little-endian).
func parseProcIP(t *testing.T, s string) net.IP {
	t.Helper()
	var raw []byte
	hex, _, _ := strings.Cut(s, ":")
	_, err := fmt.Sscanf(hex, "%x", &raw)
	must(t, err)
	for i := 0; i+4 <= len(raw); i += 4 {
		raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
	}
	return net.IP(raw)
}

func TestDataFolderInUseIsRefused(t *testing.T) {
	dir := t.TempDir()
	cfg := clickhouse.Config{Program: clickhousetest.Program(t), DataDir: dir}
	e := clickhousetest.StartWith(t, cfg)
	if _, err := clickhouse.Start(deadline(t), cfg); !errors.Is(err,
		clickhouse.ErrDataDirInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("got %v", err)
	}
	must(t, connect(t, e.DSN()).Ping(deadline(t)))
}

func TestTakenPortIsATypedError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	_, err = clickhouse.Start(deadline(t), clickhouse.Config{
		Program:  clickhousetest.Program(t),
		DataDir:  t.TempDir(),
		HTTPAddr: ln.Addr().String(),
	})
	var taken *clickhouse.PortTakenError
	if !errors.As(err, &taken) || taken.Setting != "HTTPAddr" || taken.Addr != ln.Addr().String() {
		t.Fatalf("got %v", err)
	}
}

func TestSettingsAreCheckedByName(t *testing.T) {
	good := clickhouse.Config{
		Program: clickhouse.Program{Binary: "/nonexistent/clickhouse"},
		DataDir: t.TempDir(),
	}
	for want, change := range map[string]func(*clickhouse.Config){
		"Program":        func(c *clickhouse.Config) { c.Program = clickhouse.Program{} },
		"DataDir":        func(c *clickhouse.Config) { c.DataDir = "" },
		"Database":       func(c *clickhouse.Config) { c.Database = "a`; DROP" },
		"MaxMemoryBytes": func(c *clickhouse.Config) { c.MaxMemoryBytes = 1 },
		"Niceness":       func(c *clickhouse.Config) { c.Niceness = 20 },
		"HangAfter":      func(c *clickhouse.Config) { c.HangAfter = -1 },
		"NativeAddr":     func(c *clickhouse.Config) { c.NativeAddr = "0.0.0.0:0" },
		"HTTPAddr":       func(c *clickhouse.Config) { c.HTTPAddr = "127.0.0.1" },
		"same host":      func(c *clickhouse.Config) { c.HTTPAddr = "127.0.0.2:0" },
		"/nonexistent":   func(*clickhouse.Config) {},
	} {
		cfg := good
		change(&cfg)
		if _, err := clickhouse.Start(deadline(t), cfg); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("want an error that names %s, got %v", want, err)
		}
	}
}

func TestLibraryThatCannotBeLoadedSaysSo(t *testing.T) {
	lib := filepath.Join(t.TempDir(), "libchdb.so")
	must(t, os.WriteFile(lib, []byte("not a library"), 0o644))
	_, err := clickhouse.Start(deadline(t), clickhouse.Config{
		Program: clickhouse.Program{Library: lib},
		DataDir: t.TempDir(),
	})
	if err == nil || !strings.Contains(err.Error(), lib) {
		t.Fatalf("got %v", err)
	}
}

func TestStartInsideAChildIsRefused(t *testing.T) {
	t.Setenv("LUMENHOOK_CLICKHOUSE_CHILD", "1")
	_, err := clickhouse.Start(t.Context(), clickhouse.Config{})
	if err == nil || !strings.Contains(err.Error(), "MaybeChild") {
		t.Fatalf("got %v", err)
	}
}

// The binary on PATH is a script that runs the library, so the real engine starts like a binary.
func TestBinaryOnPathIsPreferred(t *testing.T) {
	program := clickhousetest.Program(t)
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = local ] || exit 9\nshift\nexec '%s' %s '%s' \"$@\"\n",
		os.Args[0], clickhouse.ChildArg, program.Library)
	if !filepath.IsAbs(os.Args[0]) {
		t.Fatalf("the test binary's path %q must be absolute", os.Args[0])
	}
	path := filepath.Join(bin, "clickhouse")
	testkit.WriteProgram(t, path, script)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(program.Library)) // where the script finds it
	found, err := clickhouse.Find(deadline(t),
		clickhouse.Options{Logger: clickhousetest.Logger(t)})
	must(t, err)
	if found.Binary != path {
		t.Fatalf("found %+v", found)
	}
	e := clickhousetest.StartWith(t, clickhouse.Config{Program: found, DataDir: t.TempDir()})
	must(t, connect(t, e.DSN()).Ping(deadline(t)))

	// A binary that cannot serve is skipped.
	testkit.WriteProgram(t, path, "#!/bin/sh\nexit 9\n")
	found, err = clickhouse.Find(deadline(t),
		clickhouse.Options{Logger: clickhousetest.Logger(t)})
	must(t, err)
	if found.Library != program.Library {
		t.Fatalf("found %+v", found)
	}
}
