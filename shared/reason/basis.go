package reason

import (
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Basis is what the first step of a run depends on, read in one round trip with other statements. It is
// valid once its batch was sent and Ready was called, and only for a step that begins at once.
type Basis struct {
	Halts      Halts // the kill switches
	Unbudgeted bool  // nobody has made a budget in the workspace
	// Ready is called after the batch was sent.
	Ready func()

	model llm.Model // knows its circuits
}

// ReadBasis adds the reads of a basis to a batch of the workspace. It returns nil where runs read by
// themselves.
func (r *Runner) ReadBasis(b *db.Batch, ws db.Workspace) *Basis {
	if r.Basis == nil {
		return nil
	}
	basis := r.Basis(b)
	basis.model = r.model(ws)
	ready, read := basis.Ready, func() {}
	if m, ok := basis.model.(interface{ ReadIn(*db.Batch) func() }); ok {
		read = m.ReadIn(b)
	}
	basis.Ready = func() {
		read()
		if ready != nil {
			ready()
		}
	}
	return basis
}

// modelOr returns the basis's model, or a new one.
func (b *Basis) modelOr(r *Runner, ws db.Workspace) llm.Model {
	if b == nil {
		return r.model(ws)
	}
	return b.model
}
