package turn

import (
	"cmp"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Written returns the execution of a turn in an existing thread, and the outbox row that begins it.
// The caller stores both in a transaction of its own. The message is added to the thread when the
// turn gets its lane. id is the execution's id.
func (r *Runner) Written(t Turn, id string, tr trace.ID) (execution.Execution, outbox.Row, error) {
	kind, ok := r.kind(t.Surface)
	if !ok {
		return execution.Execution{}, outbox.Row{}, fmt.Errorf("surface %s has no conversations", t.Surface)
	}
	e := execution.Execution{
		ID: id, Agent: kind.Agent, Surface: kind.Surface, Trace: tr, Subject: lane.Execution(id), Attempt: 1,
		Persona: cmp.Or(t.Persona, kind.Persona), Input: encode(kind.asks(t)),
	}
	return e, KickFor(e, 0), nil
}

// Ahead adds to a batch a count of the turns of a surface's lane that come before one, which may not be
// there yet.
func (r *Runner) Ahead(b *db.Batch, surface trace.Surface, of lane.Name, id string) *int {
	kind, _ := r.kind(surface)
	return r.Runs.Ahead(b, kind.line(of), id)
}

// Hurry adds to a batch that the first turn of a surface's lane, except id, goes on at once: what it waits for
// may be over. Call it in the transaction that stores id.
func (r *Runner) Hurry(b *db.Batch, surface trace.Surface, of lane.Name, id string) {
	kind, _ := r.kind(surface)
	r.Runs.Wake(b, kind.line(of), id)
}
