package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// ErrNoRun says that a trace has no execution with recorded steps.
var ErrNoRun = errors.New("the trace has no run with recorded steps")

// ErrSeveral says that a trace has several executions and that the request must name one.
var ErrSeveral = errors.New("the trace has several runs: name one by executionId")

// ErrNotOfTrace says that the execution that the request names does not belong to the trace.
var ErrNotOfTrace = errors.New("the execution that executionId names is not of this trace")

// steps returns a trace's executions that have a journal. If only is set, it returns that one.
// Errors: [db.ErrNoRows], [ErrNotOfTrace], [ErrNoRun].
func (o *Operate) steps(ctx context.Context, ws db.Workspace, id trace.ID, only string) ([]execution.Execution, error) {
	var b db.Batch
	all := o.Runs.OfTrace(&b, id)
	if err := o.DB.Read(ctx, ws, &b); err != nil {
		return nil, err
	}
	if len(*all) == 0 {
		return nil, db.ErrNoRows
	}
	only = strings.ToLower(only)
	if only != "" && !slices.ContainsFunc(*all, func(e execution.Execution) bool { return e.ID == only }) {
		return nil, ErrNotOfTrace
	}
	found := slices.DeleteFunc(*all, func(e execution.Execution) bool {
		return only != "" && e.ID != only || e.PromptTokens+e.CompletionTokens == 0
	})
	if len(found) == 0 {
		return nil, ErrNoRun
	}
	return found, nil
}

// maxReplayed is the largest number of executions that one replay covers.
const maxReplayed = 20

// Variation holds the differences of a replay.
type Variation struct {
	reason.Variation
	Persona string // name of another persona, used in its newest version
}

// recast returns the persona of a recorded execution, and the persona to use now. That is the
// newest version of the named persona; without a name it is the recorded one.
func (o *Operate) recast(ctx context.Context, ws db.Workspace, of execution.Execution, name string) (was, next persona.Persona, err error) {
	var b db.Batch
	before, after := o.Personas.Of(&b, of.ID), o.Personas.Newest(&b, name)
	if err := o.DB.Read(ctx, ws, &b); err != nil {
		return was, next, fmt.Errorf("read the personas of a run: %w", err)
	}
	if was = before.Or(of.Persona); name == "" {
		return was, was, nil
	}
	next, err = after.Persona(name)
	return was, next, err
}

// Replay asks the model again for every step of a trace's executions, or of one of them, and
// compares the answers. It calls no skill. It stores only the usage and one activity, even if it
// fails. Errors: [ErrNoRun], [ErrNotOfTrace], [reason.SpentError], [reason.HaltedError], [persona.ErrNotFound],
// those of the model. It is called by POST /api/v1/traces/{traceId}/replay.
func (o *Operate) Replay(ctx context.Context, ws db.Workspace, id trace.ID, execution string, v Variation) ([]reason.Replayed, error) {
	runs, err := o.steps(ctx, ws, id, execution)
	if err != nil {
		return nil, err
	}
	if v.Persona != "" {
		if _, err := o.Personas.Get(ctx, ws, v.Persona); err != nil {
			return nil, err
		}
	}
	v.Window = o.Window
	begun := time.Now()
	out, failed := o.replay(ctx, ws, runs[:min(len(runs), maxReplayed)], v)
	if len(out) == 0 && failed == nil {
		return nil, ErrNoRun
	}
	var used llm.Usage
	for _, r := range out {
		used = used.Plus(r.Usage)
	}
	entry := activity.Entry{
		Agent: activity.Operator, Surface: trace.Operate, Skill: "trace.replay", Status: activity.Success,
		Usage: usageOf(used), CostUSD: activity.Dollars(used.MicroUSD), Duration: time.Since(begun),
		Input: encode(map[string]any{"trace_id": id, "executions": len(out)}),
	}
	if failed != nil {
		entry.Status, entry.Error = activity.Error, unreplayed(failed)
	}
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	return out, errors.Join(failed, o.Activity.Write(last, ws, entry))
}

// replay replays executions until one fails. The failed one is the last of the result.
func (o *Operate) replay(ctx context.Context, ws db.Workspace, runs []execution.Execution, v Variation) (out []reason.Replayed, err error) {
	for _, e := range runs {
		skills, err := o.Skills(ctx, ws, e.Surface)
		if err != nil {
			return out, err
		}
		was, next, err := o.recast(ctx, ws, e, v.Persona)
		if err != nil {
			return out, err
		}
		one := v.Variation
		one.Model, one.Temperature = cmp.Or(one.Model, next.Model), next.Temperature
		if v.Persona != "" {
			one.Rephrase = func(recorded string) string { return was.Instead(recorded, next) }
		}
		r, err := o.Reason.Replay(ctx, ws, e, skills, one)
		if errors.Is(err, reason.ErrNoJournal) {
			continue
		}
		out = append(out, r)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// unreplayed describes in our own words why a replay failed.
func unreplayed(err error) string {
	if spent, ok := errors.AsType[*reason.SpentError](err); ok {
		return spent.Why
	}
	if halted, ok := errors.AsType[*reason.HaltedError](err); ok {
		return halted.Why
	}
	if class := llm.ClassOf(err); class != "" {
		return "the model failed: " + string(class)
	}
	return "it was cut short"
}

func usageOf(u llm.Usage) *activity.Usage {
	return &activity.Usage{
		PromptTokens: int64(u.TotalTokens() - u.CompletionTokens), CompletionTokens: int64(u.CompletionTokens),
		TotalTokens: int64(u.TotalTokens()),
	}
}
