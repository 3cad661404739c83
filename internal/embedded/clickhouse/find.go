package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const probeMax = 15 * time.Second

// Program is the program to run. Exactly one field is set.
type Program struct {
	Binary  string // path of a clickhouse executable
	Library string // path of libchdb, which our own re-executed binary loads
}

func (p Program) String() string {
	if p.Binary != "" {
		return p.Binary
	}
	return p.Library
}

// Find selects the engine: a clickhouse binary on PATH whose `clickhouse local` can accept
// connections, or else the library, which it installs if necessary, unless opts.InstalledOnly is
// set.
func Find(ctx context.Context, opts Options) (Program, error) {
	log := orDiscard(opts.Logger)
	if binary, err := exec.LookPath("clickhouse"); err == nil {
		version, err := probeBinary(ctx, binary)
		if err == nil {
			log.Info("using the clickhouse binary on PATH", "path", binary, "version", version)
			return Program{Binary: binary}, nil
		}
		log.Warn("passing over the clickhouse binary on PATH", "path", binary, "err", err)
	}
	get := Ensure
	if opts.InstalledOnly {
		get = func(_ context.Context, opts Options) (string, error) { return Locate(opts) }
	}
	lib, err := get(ctx, opts)
	if err != nil {
		return Program{}, err
	}
	return Program{Library: lib}, nil
}

// probeBinary tries the only feature that older binaries lack: opening a port from `clickhouse
// local`. Other programs cannot use that port (see users.go).
func probeBinary(ctx context.Context, binary string) (version string, err error) {
	dir, err := os.MkdirTemp("", "lumenhook-clickhouse-")
	if err != nil {
		return "", fmt.Errorf("making a folder to try `clickhouse local` in: %w", err)
	}
	defer os.RemoveAll(dir)
	cfg, err := Config{Program: Program{Binary: binary}, DataDir: dir}.complete()
	if err != nil {
		return "", err
	}
	if err := writeServerConfig(folder(dir), listen{host: "127.0.0.1"}, "", cfg); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	// #nosec G204 -- the operator's own ClickHouse; our arguments.
	cmd := exec.CommandContext(ctx, binary, "local", "--config-file="+folder(dir).config(),
		"--query", "SYSTEM START LISTEN TCP; SELECT version()")
	cmd.WaitDelay = time.Second
	out := &tail{max: stderrMax}
	cmd.Stderr = out
	// The input stays open, as in normal operation; otherwise the child would exit early.
	if _, err := cmd.StdinPipe(); err != nil {
		return "", fmt.Errorf("making the input of %s: %w", binary, err)
	}
	b, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("trying `clickhouse local` with an open port: %w: %s", err,
			lastLines(out.String(), 1))
	}
	return strings.TrimSpace(string(b)), nil
}

// Reasons why an engine is unavailable. Each is wrapped in an error that says what to do.
var (
	ErrNotInstalled        = errors.New("the ClickHouse engine is not installed")
	ErrNoNPM               = errors.New("npm is not on PATH")
	ErrNoNetwork           = errors.New("the npm registry cannot be reached")
	ErrUnsupportedPlatform = errors.New("no ClickHouse engine for this platform")
	ErrHashMismatch        = errors.New("the ClickHouse engine is not the pinned one")
	ErrDiskFull            = errors.New("not enough disk space for the ClickHouse engine")
	ErrOpen                = errors.New("this ClickHouse does not hold users to their rights")
	ErrDataDirInUse        = errors.New("the ClickHouse data folder is in use by another process")
)

// fromFile returns the fix for a machine that cannot install the engine with npm.
func (in *installer) fromFile() string {
	return "install it from a file (lumenhook install-clickhouse --from FILE --cache-dir " +
		filepath.Dir(in.root) + ")"
}

// otherWays ends error messages about an engine that cannot be installed.
const otherWays = "put a clickhouse binary on PATH, or pass --clickhouse-dsn"

// PortTakenError means that an address in the Config is in use. The caller may choose another one.
type PortTakenError struct {
	Setting string // "NativeAddr" or "HTTPAddr"
	Addr    string
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("%s %s is in use by another program; choose another port, or :0 for a free one",
		e.Setting, e.Addr)
}
