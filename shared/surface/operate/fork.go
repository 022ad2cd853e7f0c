package operate

import (
	"cmp"
	"context"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// Edits holds the changes of a fork.
type Edits struct {
	reason.Edits
	Persona string // name of another persona, used in its newest version
	ID      string // of the new execution; empty: a new one
}

// Fork begins an execution with the entries that a trace's execution has recorded before a step,
// changed by edits. It adds a row to the outbox that continues the execution. Finished steps are
// not executed again. It is called by POST /api/v1/traces/{traceId}/fork.
func (o *Operate) Fork(ctx context.Context, ws db.Workspace, id trace.ID, from string, step int, edits Edits) (execution.Execution, error) {
	runs, err := o.steps(ctx, ws, id, from)
	if err != nil {
		return execution.Execution{}, err
	}
	if len(runs) > 1 {
		return execution.Execution{}, ErrSeveral
	}
	of := runs[0]
	entries, err := o.Runs.Journal(ctx, ws, of.ID, 0)
	if err != nil {
		return execution.Execution{}, err
	}
	if edits.Persona != "" && edits.System == "" {
		was, next, err := o.recast(ctx, ws, of, edits.Persona)
		if err != nil {
			return execution.Execution{}, err
		}
		recorded, _, err := reason.StartOf(entries)
		if err != nil {
			return execution.Execution{}, err
		}
		edits.System = was.Instead(recorded, next)
		of.Persona, of.PersonaVersion = next.Name, &next.Version
	}
	kept, err := reason.Prefix(entries, step, edits.Edits)
	if err != nil {
		return execution.Execution{}, err
	}
	e := execution.Execution{
		ID: cmp.Or(edits.ID, o.IDs()), Agent: of.Agent, Surface: of.Surface, Trace: of.Trace, Parent: of.ID, Attempt: 1,
		Input:   encode(map[string]any{"task": "fork", "forked_from": of.ID, "step": step}),
		Persona: of.Persona, PersonaVersion: of.PersonaVersion,
	}
	e.Subject = lane.Execution(e.ID)
	_, err = o.do(ctx, ws, e, work.Unit{
		Name: "fork", Fresh: true, Kick: turn.KickFor(e, 0),
		Begin: func(ctx context.Context, s *work.Start) error {
			if err := s.New(ctx, e); err != nil {
				return err
			}
			for _, entry := range kept {
				if err := o.Runs.Append(s.Tx, e, entry); err != nil {
					return err
				}
			}
			o.Activity.Record(ctx, s.Later(), activity.Entry{
				Agent: activity.Operator, Surface: trace.Operate, Skill: "trace.fork", Status: activity.Success, Input: e.Input,
				Trace: e.Trace, Execution: e.ID, ParentExecution: of.ID,
			})
			return nil
		},
	})
	return e, err
}
