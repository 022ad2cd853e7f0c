package api

import (
	"net/http"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// followers counts the streams that each principal has open in this process. On Lambda an
// environment serves one at a time: there the function's concurrency bounds them.
type followers struct {
	mu sync.Mutex
	of map[string]int
}

// stream lets a principal have one stream more, up to as many as one may have, until it is
// closed; else it answers, and ok is false.
func (s *server) stream(w http.ResponseWriter, r *http.Request) (closed func(), ok bool) {
	by, _ := auth.From(r.Context())
	who := string(by.Workspace) + " " + principal(by)
	if !s.open.enter(who, s.Streams.Most) {
		s.refuse(w, r, problem.New(http.StatusTooManyRequests, "too_many_streams",
			"too many streams are open already: close one").Later(2*time.Second))
		return nil, false
	}
	return func() { s.open.leave(who) }, true
}

// enter counts one more, unless there are as many as may be.
func (f *followers) enter(who string, most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[who] >= most {
		return false
	}
	if f.of == nil {
		f.of = map[string]int{}
	}
	f.of[who]++
	return true
}

func (f *followers) leave(who string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[who]--; f.of[who] == 0 {
		delete(f.of, who)
	}
}
