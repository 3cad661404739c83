//go:build !linux

package clickhouse

func confinementVersion() int { return 0 }

func (confinement) apply() error { return nil }
