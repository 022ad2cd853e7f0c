package chat

import (
	"cmp"
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// follow streams what happens in an execution after a position, in a voice. A client that comes back
// to a stream which was cut off loses nothing. Where another execution answers the message, its answer
// is told.
func (h *Handler) follow(w http.ResponseWriter, r *http.Request, v *visit, execution string, after turn.Position, as voice) {
	leave, p := h.openStream(v)
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	defer leave()
	out := &following{writer: writer{sse.Stream{W: w}, as}, execution: execution, head: r.Method == http.MethodHead}
	err := h.executions.Follow(r.Context(), v.Workspace, execution, after, out)
	if err == nil && out.by != "" {
		err = h.executions.Follow(r.Context(), v.Workspace, out.by, after, out)
	}
	if err != nil && !out.Begun {
		h.fail(w, r, err)
	}
}

// following is a writer to a client that follows an execution.
type following struct {
	writer
	execution string
	head      bool
	by        string // the execution that answers the message; empty: the one that is followed
}

// Begin implements [telling.Listener].
func (f *following) Begin() bool {
	if !f.Begun {
		f.begin(f.execution, "")
	}
	return !f.head
}

// Event implements [telling.Listener].
func (f *following) Event(e turn.Event) { f.event(e) }

// Done implements [telling.Listener].
func (f *following) Done(r turn.Reply) {
	if f.by == "" && r.AnsweredBy != "" {
		f.by = r.AnsweredBy
		return
	}
	r.Execution = cmp.Or(f.by, r.Execution)
	f.end(r)
}
