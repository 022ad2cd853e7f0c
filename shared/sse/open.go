package sse

import "sync"

// Open counts the answers that each caller has open in this process. The zero value is ready. On
// Lambda an environment serves one at a time: there the function's concurrency bounds them.
type Open struct {
	mu sync.Mutex
	of map[string]int
}

// Enter counts one more, unless there are as many as may be.
func (o *Open) Enter(who string, most int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[who] >= most {
		return false
	}
	if o.of == nil {
		o.of = map[string]int{}
	}
	o.of[who]++
	return true
}

// Leave counts one less.
func (o *Open) Leave(who string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[who]--; o.of[who] == 0 {
		delete(o.of, who)
	}
}
