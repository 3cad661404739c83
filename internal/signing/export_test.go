package signing

// Look reads the file now, and reports what a running process passes over.
func (r *Ring) Look() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read()
}
