package broker

// SyncBy has paths synced by another function.
func (c *Config) SyncBy(sync func(path string) error) { c.syncPath = sync }
