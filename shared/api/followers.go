package api

import (
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// stream lets a principal have one stream more, up to as many as one may have, until it is
// closed; else it answers, and ok is false.
func (s *server) stream(w http.ResponseWriter, r *http.Request) (closed func(), ok bool) {
	by, _ := auth.From(r.Context())
	who := string(by.Workspace) + " " + principal(by)
	if !s.open.Enter(who, s.Streams.Most) {
		s.refuse(w, r, problem.New(http.StatusTooManyRequests, "too_many_streams",
			"too many streams are open already: close one").Later(2*time.Second))
		return nil, false
	}
	return func() { s.open.Leave(who) }, true
}
