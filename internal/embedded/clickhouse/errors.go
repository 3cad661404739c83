package clickhouse

import (
	"errors"
	"fmt"
)

// Why an engine is unavailable. Each error is wrapped in one line that says what to do.
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

// otherWays ends every message about an engine that cannot be installed.
const otherWays = "put a clickhouse binary on PATH, or pass --clickhouse-dsn"

// PortTakenError means that an address the caller asked for is in use; the caller may
// choose another one.
type PortTakenError struct {
	Setting string // "NativeAddr" or "HTTPAddr"
	Addr    string
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("%s %s is in use by another program; choose another port, or :0 for a free one",
		e.Setting, e.Addr)
}
