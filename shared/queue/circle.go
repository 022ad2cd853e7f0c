package queue

import "slices"

// A job in a lane ends by itself, unless a job inside it waits. A lane with no room
// gets room when one of its jobs ends. So a wait for a lane never ends if all jobs
// in the lane wait, perhaps through others, for what the waiting chain holds.
//
// Nobody waits like that: jobs begin to wait one after the other, under the lock,
// and of those that would close a circle the last is refused. No circle comes about
// otherwise: a turn that is handed on goes to a job that waits for nothing, and
// what leaves, leaves one wait less.

// wayBack are the lanes that lead from a lane with no room back to a chain that is
// not in it, if it gets no room before a job of that chain ends; nil: it does.
func (l *lane) wayBack(chain *ticket) []string {
	if chain == nil || slices.ContainsFunc(l.active, func(t *ticket) bool { return t.first == nil }) {
		return nil // as nearly always: one of its jobs has nothing inside it
	}
	c := circle{chain: chain, stuck: map[*lane]bool{}}
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

// around reports whether a job is the innermost of a chain or around it.
func (t *ticket) around(chain *ticket) bool {
	for ; chain != nil; chain = chain.parent {
		if chain == t {
			return true
		}
	}
	return false
}

// circle looks for what waits for a chain that is about to wait.
type circle struct {
	chain *ticket
	found []*lane        // for which the jobs in those before wait
	stuck map[*lane]bool // of these: it gets no room, as far as is known
}

// explore finds a lane, and what the jobs in it wait for.
func (c *circle) explore(l *lane) {
	if c.stuck[l] {
		return
	}
	c.stuck[l] = true
	c.found = append(c.found, l)
	for _, t := range l.active {
		if !t.around(c.chain) {
			t.waiting(func(inner *ticket) bool { c.explore(inner.lane); return true })
		}
	}
}

// ends reports whether a job waits for nothing that is stuck.
func (c *circle) ends(t *ticket) bool {
	return !t.around(c.chain) && t.waiting(func(inner *ticket) bool { return !c.stuck[inner.lane] })
}

// way leads from a stuck lane to the chain.
func (c *circle) way(l *lane) (way []string, ok bool) {
	c.stuck[l] = false // once is enough
	if slices.ContainsFunc(l.active, func(t *ticket) bool { return t.around(c.chain) }) {
		return nil, true
	}
	for _, t := range l.active {
		t.waiting(func(inner *ticket) bool {
			if c.stuck[inner.lane] {
				if way, ok = c.way(inner.lane); ok {
					way = append([]string{inner.lane.name}, way...)
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
