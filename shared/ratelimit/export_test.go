package ratelimit

// Keys returns how many keys are remembered.
func (l *Cache) Keys() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leases)
}

// Known returns how many addresses are remembered.
func (f *Failures) Known() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.of)
}
