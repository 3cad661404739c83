package clickhouse

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const npmOutputMax = 64 << 10 // how much of npm's output is kept for an error

// fetch runs `npm ci` with the pinned lock file in dir. npm verifies the archive's integrity hash
// and downloads it from the user's configured registry.
func (in *installer) fetch(ctx context.Context, dir string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("cannot install the ClickHouse engine: %w; install Node.js with npm, %s, %s",
			ErrNoNPM, in.fromFile(), otherWays)
	}
	for name, b := range map[string][]byte{
		"package.json":      in.pin.PackageJSON,
		"package-lock.json": in.pin.LockJSON,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return fmt.Errorf("writing the engine's %s: %w", name, err)
		}
	}
	// The package's scripts don't run, because only the library is needed.
	// #nosec G204 -- npm from PATH, with fixed arguments.
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund",
		"--no-update-notifier", "--loglevel=error")
	cmd.Dir = dir
	out := &tail{max: npmOutputMax}
	cmd.Stdout, cmd.Stderr = out, out
	// npm starts child processes. Cancelling kills all of them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second

	in.log.Info("installing the ClickHouse engine", "package", in.pin.Package, "version",
		in.pin.Version)
	shown := showProgress(in.progress, "ClickHouse engine "+in.pin.Version, dir)
	err = cmd.Run()
	shown.stop(err)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("installing the ClickHouse engine was cut short: %w", context.Cause(ctx))
	}
	return in.npmError(err, out.String())
}

// npmError summarizes npm's output in one line, with the fix. npm identifies its errors by a code
// on a separate line.
func (in *installer) npmError(err error, output string) error {
	has := func(codes ...string) bool {
		for _, code := range codes {
			if strings.Contains(output, code) {
				return true
			}
		}
		return false
	}
	switch {
	case has("EINTEGRITY"):
		return fmt.Errorf("%w: npm refused the archive of %s %s, its hash is not that of our lock "+
			"(EINTEGRITY); check the registry npm uses, or %s",
			ErrHashMismatch, in.pin.Package, in.pin.Version, otherWays)
	case has("ENOSPC"):
		return diskFull(in.root, "npm ran out of space (ENOSPC)")
	case has("EBADPLATFORM"):
		return fmt.Errorf("%w: npm says %s does not run here (EBADPLATFORM); %s", ErrUnsupportedPlatform,
			in.pin.Package, otherWays)
	case has("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ERR_SOCKET_TIMEOUT",
		"ENETUNREACH", "EHOSTUNREACH"):
		return fmt.Errorf("cannot install the ClickHouse engine: %w; connect once (or set npm's "+
			"registry), %s, %s", ErrNoNetwork, in.fromFile(), otherWays)
	}
	return fmt.Errorf("installing the ClickHouse engine: npm ci: %w: %s; %s, %s", err,
		lastLines(output, 3), in.fromFile(), otherWays)
}

func lastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && !noise(line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// noise reports whether npm or the engine prints the line in every run.
func noise(line string) bool {
	return strings.Contains(line, "A complete log of this run") ||
		strings.HasPrefix(line, "Logging warning to ")
}

// tail keeps the last max bytes written to it. It is not safe for concurrent use.
type tail struct {
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.buf) }
