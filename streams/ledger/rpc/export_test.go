package rpc

import "time"

// SetNow replaces the clock.
func (l *Lookup) SetNow(now func() time.Time) { l.now = now }
