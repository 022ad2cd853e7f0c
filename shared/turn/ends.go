package turn

import (
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// ends signals the ends of executions in this process to waiting turns. The zero value is ready to
// use.
type ends struct {
	mu  sync.Mutex
	all map[db.Workspace]chan struct{} // of workspaces with waiting turns
}

// next returns a channel that is closed when the next execution of a workspace ends.
func (e *ends) next(ws db.Workspace) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.all[ws]
	if c == nil {
		c = make(chan struct{})
		if e.all == nil {
			e.all = map[db.Workspace]chan struct{}{}
		}
		e.all[ws] = c
	}
	return c
}

// signal wakes all turns of a workspace that wait for an end.
func (e *ends) signal(ws db.Workspace) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.all[ws]; c != nil {
		close(c)
		delete(e.all, ws)
	}
}
