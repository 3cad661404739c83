//go:build !linux

package broker

import "errors"

// watchFolder is only supported on Linux.
func watchFolder(string) (watcher, error) { return nil, errors.ErrUnsupported }
