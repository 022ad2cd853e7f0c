package queue

import "slices"

// A job in a queue ends by itself, unless an inner job of it waits. A full queue gets room when one
// of its jobs ends. So a wait for a queue never ends if all jobs in the queue wait, directly or
// through others, for a queue that the waiting chain occupies.
//
// No job ever waits like that. Jobs begin to wait one after the other, under the lock, and the last
// one that would close a cycle is refused. A cycle can't arise in another way: a turn that is
// passed on goes to a job that waits for nothing, and each job that leaves removes a wait.

// wayBack returns the queues on the path from the full queue l back to chain, which is not in l. It
// returns nil when l will get room before a job of that chain ends.
func (l *queue) wayBack(chain *ticket) []string {
	if chain == nil || slices.ContainsFunc(l.active, func(t *ticket) bool { return t.first == nil }) {
		return nil // the common case: one of its jobs has no inner job
	}
	c := circle{chain: chain, stuck: map[*queue]bool{}}
	c.explore(l)
	for again := true; again; {
		again = false
		for _, l := range slices.Backward(c.found) {
			if c.stuck[l] && slices.ContainsFunc(l.active, c.ends) {
				c.stuck[l], again = false, true
			}
		}
	}
	if !c.stuck[l] {
		return nil
	}
	way, _ := c.way(l)
	return way
}

// around reports whether t is the innermost job of a chain or one of its outer jobs.
func (t *ticket) around(chain *ticket) bool {
	for ; chain != nil; chain = chain.parent {
		if chain == t {
			return true
		}
	}
	return false
}

// circle finds what waits for a chain that is about to wait.
type circle struct {
	chain *ticket
	found []*queue        // queues that jobs in the queues before them wait for
	stuck map[*queue]bool // whether a found queue gets no room, as far as known
}

// explore adds a queue, and the queues that the jobs in it wait for.
func (c *circle) explore(l *queue) {
	if c.stuck[l] {
		return
	}
	c.stuck[l] = true
	c.found = append(c.found, l)
	for _, t := range l.active {
		if !t.around(c.chain) {
			t.waiting(func(inner *ticket) bool { c.explore(inner.queue); return true })
		}
	}
}

// ends reports whether a job waits for no stuck queue, so that it will end.
func (c *circle) ends(t *ticket) bool {
	return !t.around(c.chain) && t.waiting(func(inner *ticket) bool { return !c.stuck[inner.queue] })
}

// way returns the path from a stuck queue to the chain.
func (c *circle) way(l *queue) (way []string, ok bool) {
	c.stuck[l] = false // visit each queue once
	if slices.ContainsFunc(l.active, func(t *ticket) bool { return t.around(c.chain) }) {
		return nil, true
	}
	for _, t := range l.active {
		t.waiting(func(inner *ticket) bool {
			if c.stuck[inner.queue] {
				if way, ok = c.way(inner.queue); ok {
					way = append([]string{inner.queue.name}, way...)
				}
			}
			return !ok
		})
		if ok {
			return way, true
		}
	}
	return nil, false
}
