package live

// Keys is how many keys are remembered.
func (l *Local) Keys() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leases)
}
