package api

import (
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// stream opens one more stream for a principal. If the principal has the maximum number open,
// stream answers with a problem and returns false. The caller calls closed at the end of the
// stream.
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
