package sse

import "sync"

// Open counts the open streams of each caller in this process. The zero value is ready to use. On
// Lambda each execution environment serves one request at a time, so the function's concurrency
// limits the streams there.
type Open struct {
	mu sync.Mutex
	of map[string]int
}

// Enter adds a stream of a caller. It returns false if the caller has most streams open already.
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

// Leave removes a stream of a caller.
func (o *Open) Leave(who string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[who]--; o.of[who] == 0 {
		delete(o.of, who)
	}
}
