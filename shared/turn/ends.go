package turn

import (
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// ends signals the ends of executions in this process to waiting turns. The zero value is ready to
// use.
type ends struct {
	mu  sync.Mutex
	all map[db.Workspace]map[chan struct{}]bool // of workspaces with waiting turns
}

// maxUnheard is how many ends are kept for a turn that looks at something else.
const maxUnheard = 64

// listen returns a channel with one signal for each execution of a workspace that ends, until stop is
// called.
func (e *ends) listen(ws db.Workspace) (ended <-chan struct{}, stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := make(chan struct{}, maxUnheard)
	if e.all == nil {
		e.all = map[db.Workspace]map[chan struct{}]bool{}
	}
	if e.all[ws] == nil {
		e.all[ws] = map[chan struct{}]bool{}
	}
	e.all[ws][c] = true
	return c, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(e.all[ws], c); len(e.all[ws]) == 0 {
			delete(e.all, ws)
		}
	}
}

// signal tells the turns of a workspace that wait that an execution has ended.
func (e *ends) signal(ws db.Workspace) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.all[ws] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// drain drops the signals of the ends that the next look sees.
func drain(ended <-chan struct{}) {
	for {
		select {
		case <-ended:
		default:
			return
		}
	}
}
