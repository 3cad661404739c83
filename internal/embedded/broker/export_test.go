package broker

// SyncBy replaces the function that syncs paths.
func (c *Config) SyncBy(sync func(path string) error) { c.syncPath = sync }

// BetweenCompactions calls f while nothing is compacted.
func (b *Broker) BetweenCompactions(f func()) {
	b.compacting.Lock()
	defer b.compacting.Unlock()
	f()
}

// Set overrides settings of kfake.
func (c *Config) Set(settings map[string]string) { c.settings = settings }
