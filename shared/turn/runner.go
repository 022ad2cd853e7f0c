// Package turn runs the turns of conversations with an agent. A turn is one message of a person and
// its answer. One turn of a conversation runs at a time, under a lane. Other turns wait in line in
// the order of their arrival, or replace the running one. A turn is a unit of work: if it is cut
// off, its outbox row continues it. Its followers read its journal. A [Kind] holds what differs
// between the surfaces that talk with people.
package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/work"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Runner runs the turns of all kinds of conversations. Its only state is which turns wait for the
// end of another. It is safe for concurrent use and must not be copied.
type Runner struct {
	*parts.Parts
	Kinds []Kind
	// Poll is how often a waiting turn checks whether it is next if the turn before it runs in
	// another process; 0: each second.
	Poll time.Duration
	// Collects is how long a turn waits for further messages that it may answer too; 0: 2 s.
	Collects time.Duration

	// Patience is how long a turn waits for the lock of its thread before it is parked; 0: 30 s.
	Patience time.Duration

	ends ends
}

// do performs a unit of work under the lane of an execution, and signals its end.
func (r *Runner) do(ctx context.Context, ws db.Workspace, surface string, e execution.Execution, u work.Unit) (work.Outcome, error) {
	defer r.ends.signal(ws)
	u.Lane = lane.Request{Workspace: ws, Lane: e.Subject, Holder: lane.NewHolder(surface, r.Instance, e.Trace)}
	return r.Worker.Do(ctx, u)
}

// Settings reads the settings of a workspace.
func (r *Runner) Settings(ctx context.Context, ws db.Workspace) (workspace.Settings, error) {
	var b db.Batch
	settings := r.Workspaces.Settings(&b)
	if err := r.DB.Read(ctx, ws, &b); err != nil {
		return workspace.Settings{}, fmt.Errorf("read the workspace's settings: %w", err)
	}
	return settings()
}

// basis is what an execution works by.
type basis struct {
	settings workspace.Settings
	persona  persona.Persona
}

// readBasis adds the read of an execution's basis to a batch. Call the returned function after the
// batch was sent.
func (r *Runner) readBasis(b *db.Batch, e execution.Execution) func() (basis, error) {
	settings, found := r.Workspaces.Settings(b), r.Personas.Of(b, e.ID)
	return func() (basis, error) {
		s, err := settings()
		return basis{s, found.Or(e.Persona)}, err
	}
}

// bounded applies the workspace's limits to a job.
func (r *Runner) bounded(job reason.Job, skills *skill.Set, settings workspace.Settings) reason.Job {
	job.Skills, job.MaxTokens, job.Window, job.TellsDecisions = skills, answerTokens, r.Window, true
	kind, _ := r.kind(job.Execution.Surface)
	if kind.AnswerTokens != nil {
		job.MaxTokens = kind.AnswerTokens(settings)
	}
	job.Guarded = kind.Guarded
	job.Stops = []reason.Stop{reason.Deadline(), reason.Wanted(job.Hold), reason.MaxSteps(settings.StepsPerRun)}
	job.Retries, job.SkillTimeout = settings.ToolRetries, time.Duration(settings.SkillTimeout)*time.Second
	return job
}

// answerTokens is the longest answer of the model, in tokens.
const answerTokens = 4096

// encode returns v as JSON. Our own types always encode.
func encode(v any) json.RawMessage { return json.RawMessage(db.Encode(v)) }
