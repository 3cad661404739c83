//go:build !noengine

package clickhouse

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libraryBuiltIn reports that this build can load the library. purego links the system's dynamic
// loader, so the binary is not static: see docs/decisions/clickhouse-engine.md.
const libraryBuiltIn = true

// runLibrary loads libchdb and runs `clickhouse local` with args until its last query ends.
func runLibrary(path string, args []string) error {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return fmt.Errorf("loading the ClickHouse engine %s: %w", path, err)
	}
	var (
		setSignalHandlers func(enabled int32)
		queryCommandLine  func(argc int32, argv unsafe.Pointer) unsafe.Pointer
		resultError       func(result unsafe.Pointer) string
	)
	for name, f := range map[string]any{
		"chdb_set_signal_handlers_enabled": &setSignalHandlers,
		"chdb_query_cmdline":               &queryCommandLine,
		"chdb_result_error":                &resultError,
	} {
		symbol, err := purego.Dlsym(lib, name)
		if err != nil {
			return fmt.Errorf("the library %s lacks %s: %w", path, name, err)
		}
		purego.RegisterFunc(f, symbol)
	}
	// After a crash, the library's own handler sleeps for minutes, which would look like a hang.
	// Without it, the process exits immediately and is restarted.
	setSignalHandlers(0)

	argv := make([]*byte, 0, len(args)+2)
	for _, arg := range append([]string{"clickhouse"}, args...) {
		argv = append(argv, &append([]byte(arg), 0)[0])
	}
	var pinned runtime.Pinner
	defer pinned.Unpin()
	for _, arg := range argv {
		pinned.Pin(arg)
	}
	argv = append(argv, nil)
	pinned.Pin(&argv[0])
	answer := queryCommandLine(int32(len(argv)-1), unsafe.Pointer(&argv[0]))
	if text := resultError(answer); text != "" {
		return errors.New(text)
	}
	return nil
}
