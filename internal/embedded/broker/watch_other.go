//go:build !linux

package broker

import "errors"

func watchFolder(string) (watcher, error) { return nil, errors.ErrUnsupported }
