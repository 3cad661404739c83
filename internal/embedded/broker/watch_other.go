//go:build !linux

package broker

import "errors"

// watchFolder is for Linux only.
func watchFolder(string) (watcher, error) { return nil, errors.ErrUnsupported }
