// Package operate is what an admin does with the agent: talk with it, run a skill by
// hand, replay what it did, and fork from a step of it.
package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Operate serves an admin. Between requests it keeps nothing but who waits for another's
// end; it must not be copied.
type Operate struct {
	DB         *db.DB
	Lanes      *lane.Store
	Runs       *execution.Store
	Activity   *activity.Log
	Outbox     *outbox.Store
	Workspaces *workspace.Store
	Reason     *reason.Runner
	// Threads are the conversations with people, Approvals what waits for them.
	Threads   *thread.Store
	Approvals *approval.Store
	// Skills are those of a surface, with what is switched off left out.
	Skills   func(ctx context.Context, ws db.Workspace, surface trace.Surface) (*skill.Set, error)
	IDs      func() string
	Log      *slog.Logger
	Instance string // names this process in holders
	Window   int    // of the model, in tokens
	// Poll is how often a turn that stands in line looks whether it comes next, should the
	// one before it work in another process; 0: each second.
	Poll time.Duration

	ends ends
}

// Used is what came of a skill that was run by hand.
type Used struct {
	reason.CallResult
	Execution string
	Trace     trace.ID
}

// ErrNoSkill says that there is no such skill, or that it is switched off.
var ErrNoSkill = errors.New("there is no such skill, or it is disabled")

// ErrNeedsApproval says that a program asked for a call that a person must approve.
var ErrNeedsApproval = errors.New("the call requires approval: a person runs it, or the agent asks for it in a run, where its call waits under approvals")

// InputError lists everything that is wrong with the input of a skill.
type InputError struct{ Violations []skill.Violation }

func (e *InputError) Error() string { return fmt.Sprintf("the input has %d faults", len(e.Violations)) }

// ByHand says who has a call made by hand, and in whose words.
type ByHand struct {
	By     string // such as user:…
	Person bool   // a person asks, not a program
	// Untrusted says that the input may be in the words of others: a run that had read text
	// from outside wrote it.
	Untrusted bool
}

// RunSkill makes one call by hand. No approval is needed where a person asks for it;
// whoever else does gets [ErrNeedsApproval] for a skill that requires one, and, where the
// input may be in the words of others, for one that may change something outside. One that
// is cut off does not go on by itself: whoever asked has no answer and asks again, and a
// call that came later, unasked, would surprise them. A beat closes what is left of it. It
// is called by POST /api/v1/skills/{id}/run.
func (o *Operate) RunSkill(ctx context.Context, ws db.Workspace, name string, input json.RawMessage, by ByHand) (Used, error) {
	id, _ := trace.From(ctx)
	e := execution.Execution{
		ID: o.IDs(), Agent: activity.Operator, Surface: trace.Operate, Trace: id, Attempt: 1, Input: encode(map[string]any{"skill": name}),
	}
	e.Subject = lane.Execution(e.ID)
	used := Used{Execution: e.ID, Trace: id}
	skills, err := o.Skills(ctx, ws, trace.Operate)
	if err != nil {
		return used, err
	}
	k, ok := skills.Find(name)
	if !ok || k.Name != name {
		return used, ErrNoSkill
	}
	if violations := k.Check(ctx, input); len(violations) > 0 {
		return used, &InputError{violations}
	}
	if !by.Person && requiresApproval(skills, k, input, by.Untrusted) {
		return used, ErrNeedsApproval
	}
	settings, err := o.settings(ctx, ws)
	if err != nil {
		return used, err
	}
	_, err = o.do(ctx, ws, e, work.Unit{
		Name: "hand", Fresh: true,
		Begin: func(ctx context.Context, s *work.Start) error { return s.New(ctx, e) },
		Act: func(ctx context.Context, job reason.Job) (out reason.Outcome, err error) {
			job = o.bounded(job, skills, settings)
			job.By = by.By
			used.CallResult, out, err = o.Reason.RunCallByHand(ctx, job, k.Name, input)
			return out, err
		},
	})
	return used, err
}

// requiresApproval reports whether a program's call does, or the one that it stands for.
func requiresApproval(skills *skill.Set, k *skill.Skill, input json.RawMessage, outside bool) bool {
	if k.Through {
		if name, _, err := skill.Inner(input); err == nil {
			k, _ = skills.Find(name)
		}
	}
	return k != nil && (k.RequiresApproval || outside && k.WritesRemote() && k.Scope != skill.External)
}

// do has a unit of work done under the lane of an execution, and signals its end.
func (o *Operate) do(ctx context.Context, ws db.Workspace, e execution.Execution, u work.Unit) (work.Outcome, error) {
	defer o.ends.signal(ws)
	u.Lane = lane.Request{Workspace: ws, Lane: e.Subject, Holder: lane.NewHolder("operate", o.Instance, e.Trace)}
	worker := work.Worker{Lanes: o.Lanes, Runs: o.Runs, Reason: o.Reason, Outbox: o.Outbox}
	return worker.Do(ctx, u)
}

func (o *Operate) settings(ctx context.Context, ws db.Workspace) (workspace.Settings, error) {
	var b db.Batch
	settings := o.Workspaces.Settings(&b)
	if err := o.DB.Read(ctx, ws, &b); err != nil {
		return workspace.Settings{}, fmt.Errorf("read the workspace's settings: %w", err)
	}
	return settings()
}

// bounded is a job within what the workspace allows.
func (o *Operate) bounded(job reason.Job, skills *skill.Set, settings workspace.Settings) reason.Job {
	job.Skills, job.MaxTokens, job.Window, job.TellsDecisions = skills, answerTokens, o.Window, true
	job.Stops = []reason.Stop{reason.Deadline(), reason.Wanted(job.Hold), reason.MaxSteps(settings.StepsPerRun)}
	job.Retries, job.SkillTimeout = settings.ToolRetries, time.Duration(settings.SkillTimeout)*time.Second
	return job
}

// answerTokens bounds one answer of the model.
const answerTokens = 4096

// ErrNoRun says that a trace has no execution that took steps.
var ErrNoRun = errors.New("the trace has no run with recorded steps")

// ErrSeveral says that a trace has several runs: which one is meant must be said.
var ErrSeveral = errors.New("the trace has several runs: name one by executionId")

// steps are a trace's executions with a journal; the one named, where one is.
func (o *Operate) steps(ctx context.Context, ws db.Workspace, id trace.ID, only string) ([]execution.Execution, error) {
	var b db.Batch
	all := o.Runs.OfTrace(&b, id)
	if err := o.DB.Read(ctx, ws, &b); err != nil {
		return nil, err
	}
	if len(*all) == 0 {
		return nil, db.ErrNoRows
	}
	found := slices.DeleteFunc(*all, func(e execution.Execution) bool {
		return only != "" && e.ID != only || e.PromptTokens+e.CompletionTokens == 0
	})
	if len(found) == 0 {
		return nil, ErrNoRun
	}
	return found, nil
}

// maxReplayed is the most runs of a trace that one replay asks the model for.
const maxReplayed = 20

// Replay asks the model anew for every step of a trace's runs, or of one of them,
// and compares. No skill is called, and nothing is written but what it used and one
// line in the log, also where it fails. Errors: [ErrNoRun], [reason.SpentError],
// [reason.HaltedError], the model's. It is called by
// POST /api/v1/traces/{traceId}/replay.
func (o *Operate) Replay(ctx context.Context, ws db.Workspace, id trace.ID, execution string, v reason.Variation) ([]reason.Replayed, error) {
	runs, err := o.steps(ctx, ws, id, execution)
	if err != nil {
		return nil, err
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

// replay replays runs up to one that fails, which is the last of the answer.
func (o *Operate) replay(ctx context.Context, ws db.Workspace, runs []execution.Execution, v reason.Variation) (out []reason.Replayed, err error) {
	for _, e := range runs {
		skills, err := o.Skills(ctx, ws, e.Surface)
		if err != nil {
			return out, err
		}
		r, err := o.Reason.Replay(ctx, ws, e, skills, v)
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

// unreplayed says why a replay failed, in words of ours.
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

// encode is the JSON of our own types, which always has one.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		raw, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return raw
}
