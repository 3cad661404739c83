package rpc

import "time"

// SetNow replaces the clock.
func (l *Lookup) SetNow(now func() time.Time) { l.now = now }

// SetPageSizeBytesMax replaces the bound of a page's answer.
func (s *Source) SetPageSizeBytesMax(sizeBytes int64) { s.sizeMax = sizeBytes }
