//go:build noengine

package clickhouse

import "errors"

const libraryBuiltIn = false

func runLibrary(string, []string) error {
	return errors.New("this build leaves out the engine's loader (build tag noengine)")
}
