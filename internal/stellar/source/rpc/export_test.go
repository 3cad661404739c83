package rpc

// SetPageSizeBytesMax replaces the bound of a page's answer.
func (s *Source) SetPageSizeBytesMax(sizeBytes int64) { s.pageMax = sizeBytes }
