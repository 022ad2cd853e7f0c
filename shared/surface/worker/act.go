package worker

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed work.md
var prompt string

const (
	// answerTokens is the longest answer of the model, in tokens.
	answerTokens = 4096
	// runs is how many times the steps of a run an attempt may take, unless its metadata say more.
	runs = 10
	// maxSteps is the largest number of steps that the metadata of a task may allow.
	maxSteps = 10_000
)

// act works on the task until it is done, waits for a person, is stopped, or is to be handed on.
func (a *attempt) act(ctx context.Context, job reason.Job) (reason.Outcome, error) {
	a.hold, a.exec = job.Hold, job.Execution
	if end, ok := ctx.Deadline(); ok {
		a.limit = time.Until(end)
	}
	a.Log.InfoContext(ctx, "task begun", "title", a.title, "task", a.tick.Task, "attempt", a.number, "agent", a.agent.Name, "resumed", !a.begun)
	working, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { a.watch(working, cancel) })
	out, err := a.run(working, job)
	cancel(nil)
	watching.Wait()
	return a.conclude(ctx, out, err)
}

// threadBusy is why a run is halted until it gets the lock of its thread.
const threadBusy = "another execution speaks in its thread"

func (a *attempt) run(ctx context.Context, job reason.Job) (reason.Outcome, error) {
	switch got, err := a.holdThread(ctx); {
	case errors.Is(err, errNoThread):
		return reason.Outcome{Status: execution.Failed, Reason: errNoThread.Error()}, nil
	case err != nil || !got:
		return reason.Outcome{Status: execution.Parked, Reason: threadBusy, Halted: true}, err
	}
	job, err := a.prepared(ctx, job)
	if err != nil {
		return reason.Outcome{}, err
	}
	return a.Turns.Through(ctx, job)
}

// conclude decides how a run ends: an order stops the attempt, and an invocation that handed
// on without a new step would do so for ever.
func (a *attempt) conclude(ctx context.Context, out reason.Outcome, err error) (reason.Outcome, error) {
	o := a.order()
	a.spent = a.limit > 0 && (a.due || ctx.Err() != nil) && !errors.Is(context.Cause(ctx), reason.ErrStopped)
	before := 0 // steps of this execution
	if a.left.Execution == a.exec.ID {
		before = a.left.Step
	}
	if err != nil && (errors.Is(err, lane.ErrLost) || o == nil && ctx.Err() == nil) {
		return out, err
	}
	if err != nil {
		out.Status, out.Reason, out.Progress = execution.Parked, "the time was up", a.seen
	}
	switch {
	case o != nil && out.Status != execution.Waiting: // also an end whose task was paused before it was stored: it is stored next time
		out.Status, out.Reason, out.Halted = o.status, o.why, false
	case out.Status == execution.Parked && !out.Halted && a.spent && !a.saved && out.Steps <= before:
		a.stuck, out.Status = true, execution.Failed
		out.Reason = fmt.Sprintf("quarantined: an invocation of %s ended without a finished step", a.limit.Round(time.Second))
	}
	return out, nil
}

// reserve is what must be left of the invocation for another step: a minute, and less where invocations
// are short.
func (a *attempt) reserve() time.Duration { return min(time.Minute, a.limit/15) }

// handOver parks the attempt when too little of the invocation is left for another step.
func (a *attempt) handOver(ctx context.Context, p reason.Progress) *reason.Stopped {
	end, ok := ctx.Deadline()
	if ctx.Err() == nil && (!ok || time.Until(end) > max(a.reserve(), p.LongestStep*3/2)) {
		return nil
	}
	a.due = true
	why := "another invocation continues it"
	if errors.Is(context.Cause(ctx), reason.ErrStopped) {
		why = reason.ErrStopped.Error()
	}
	return &reason.Stopped{Status: execution.Parked, Reason: why}
}

// prepared completes the job of the attempt. A resumed execution keeps its system prompt, its skills and
// its messages.
func (a *attempt) prepared(ctx context.Context, job reason.Job) (reason.Job, error) {
	ws := a.tick.Workspace
	t, err := a.Tasks.Get(ctx, ws, a.tick.Task)
	if err != nil {
		return job, err
	}
	var b db.Batch
	read, found := a.Workspaces.Settings(&b), a.Personas.Of(&b, job.Execution.ID)
	if err := a.DB.Read(ctx, ws, &b); err != nil {
		return job, fmt.Errorf("read the workspace's settings and the persona: %w", err)
	}
	settings, err := read()
	if err != nil {
		return job, err
	}
	words := found.Or(persona.Flowpilot)
	skills, err := a.Skills(ctx, ws, trace.Worker)
	if err != nil {
		return job, err
	}
	if job.Journal, err = a.Runs.Journal(ctx, ws, job.Execution.ID, 0); err != nil {
		return job, err
	}
	_ = json.Unmarshal(t.Checkpoint, &a.left) // that of another kind of agent tells nothing of steps
	job.System, job.Temperature = words.System(prompt), words.Temperature
	names := words.Skills
	if len(job.Journal) > 0 {
		if job.System, names, err = reason.StartOf(job.Journal); err != nil {
			return job, err
		}
	} else {
		job.Journal = []execution.Entry{}
		if job.Messages, job.Trust, err = a.brief(ctx, t); err != nil {
			return job, err
		}
	}
	if job.Skills = skills; names != nil {
		job.Skills = skills.Only(slices.Clone(names)...)
	}
	if job.Model, err = a.Agents.ModelOf(ctx, ws, agent.Attempt{Task: t.ID, Number: a.number}); err != nil {
		return job, err
	}
	if job.Model == "" {
		job.Model = words.Model
	}
	job.Task, job.TaskAttempt = t.ID, a.number
	job.AgentID = a.agent.ID
	job.MaxTokens, job.Window, job.TellsDecisions = answerTokens, a.Window, true
	job.Retries, job.SkillTimeout = settings.ToolRetries, time.Duration(settings.SkillTimeout)*time.Second
	job.Stops = []reason.Stop{a.handOver, reason.Wanted(job.Hold), reason.MaxSteps(stepsOf(t, settings.StepsPerRun))}
	job.Between = a.between
	if job.Guarded = a.thread != ""; job.Guarded && words.OutputCheck != "" {
		job.Check = a.Turns.CheckOf(ws, job.Execution, a.thread, job, words.OutputCheck)
	}
	return job, nil
}

// stepsOf returns how many steps an attempt may take.
func stepsOf(t task.Task, perRun int) int {
	var said struct {
		MaxSteps int `json:"maxSteps"`
	}
	if json.Unmarshal(t.Metadata, &said) == nil && said.MaxSteps > 0 {
		return min(said.MaxSteps, maxSteps)
	}
	return perRun * runs
}

// taskBrief is the first message of an execution.
type taskBrief struct {
	Task struct {
		ID          string          `json:"id"`
		Title       string          `json:"title"`
		Description string          `json:"description,omitempty"`
		Type        string          `json:"type,omitempty"`
		Input       json.RawMessage `json:"input,omitempty"`
		DependsOn   []resultBrief   `json:"dependsOn,omitempty"`
	} `json:"task"`
	Earlier      json.RawMessage `json:"earlier,omitempty"`
	Conversation []saidBrief     `json:"conversation,omitempty"`
}

// resultBrief is what came of a task that this one depends on.
type resultBrief struct {
	Title  string `json:"title"`
	Result string `json:"result,omitempty"`
}

const (
	maxResult  = 4 << 10 // of a task that this one depends on, in bytes
	maxResults = 50      // of which the results are told
)

// brief returns the first message of an execution, and its trust. References to secrets in the task's
// input stay references: the agent passes them to skills, which resolve them.
func (a *attempt) brief(ctx context.Context, t task.Task) ([]llm.Message, execution.Trust, error) {
	var b taskBrief
	b.Task.ID, b.Task.Title, b.Task.Description, b.Task.Type, b.Task.Input = t.ID, t.Title, t.Description, t.Type, t.Input
	b.Earlier = t.Checkpoint
	said, err := a.heard(ctx)
	if err != nil {
		return nil, "", err
	}
	b.Conversation = said
	trust := execution.Trusted
	if len(said) > 0 || t.Untrusted || len(t.Checkpoint) > 0 {
		trust = execution.Untrusted
	}
	for _, id := range t.DependsOn[:min(len(t.DependsOn), maxResults)] {
		on, err := a.Tasks.Get(ctx, a.tick.Workspace, id)
		if err != nil {
			return nil, "", err
		}
		result := on.Summary
		if result == "" {
			result = string(on.Output)
		}
		b.Task.DependsOn = append(b.Task.DependsOn, resultBrief{on.Title, activity.Clip(result, maxResult)})
		if on.Untrusted || on.Attempt > 0 || result != "" { // an agent wrote it, which may have read anything
			trust = execution.Untrusted
		}
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, "", fmt.Errorf("encode task %s: %w", t.ID, err)
	}
	return []llm.Message{{Role: llm.RoleUser, Text: string(raw)}}, trust, nil
}
