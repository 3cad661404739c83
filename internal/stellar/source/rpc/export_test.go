package rpc

// SetPageSizeBytesMax changes the maximum size of a response with a page.
func (s *Source) SetPageSizeBytesMax(sizeBytes int64) { s.pageMax = sizeBytes }
