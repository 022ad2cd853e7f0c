package turn

import (
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// ends signals to those who stand in line that an execution of this process has ended.
// The zero value is ready.
type ends struct {
	mu  sync.Mutex
	all map[db.Workspace]chan struct{} // of workspaces in which somebody waits
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

// signal wakes whoever waits for an end in a workspace.
func (e *ends) signal(ws db.Workspace) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.all[ws]; c != nil {
		close(c)
		delete(e.all, ws)
	}
}
