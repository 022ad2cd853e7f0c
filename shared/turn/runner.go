// Package turn has the turns of conversations with an agent: one message of a person and its
// answer. One turn of a conversation runs at a time, under a lane; the others stand in line, in
// the order in which they came, or take the running one's place. A turn is a unit of work that
// goes on by its row in the outbox when it is cut off, and whoever follows it reads its journal.
// What differs between the surfaces that talk with people is a [Kind].
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

// Runner has the turns of all kinds of conversations. Between them it keeps nothing but who
// waits for another's end. It serves several at once and must not be copied.
type Runner struct {
	*parts.Parts
	Kinds []Kind
	// Poll is how often a turn that stands in line looks whether it comes next, should the
	// one before it work in another process; 0: each second.
	Poll time.Duration
	// Collects is for how long a message is waited for that may be answered together with
	// the one before it; 0: 2 s.
	Collects time.Duration

	// Patience is how long a turn waits for the lock of its thread before it is parked; 0: 30 s.
	Patience time.Duration

	ends ends
}

// do has a unit of work done under the lane of an execution, and signals its end.
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

// basis reads, in one round trip, the settings of a workspace and the persona of an execution; also
// may add reads.
func (r *Runner) basis(ctx context.Context, ws db.Workspace, e execution.Execution, also func(*db.Batch)) (workspace.Settings, persona.Persona, error) {
	var b db.Batch
	settings, found := r.Workspaces.Settings(&b), r.Personas.Of(&b, e.ID)
	if also != nil {
		also(&b)
	}
	if err := r.DB.Read(ctx, ws, &b); err != nil {
		return workspace.Settings{}, persona.Persona{}, fmt.Errorf("read the workspace's settings and the persona: %w", err)
	}
	s, err := settings()
	return s, found.Or(e.Persona), err
}

// bounded is a job of a surface within what the workspace allows.
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

// answerTokens bounds one answer of the model.
const answerTokens = 4096

// encode is the JSON of our own types, which always has one.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		raw, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return raw
}
