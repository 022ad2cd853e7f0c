package reason

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// call makes one call of the model's and records its result. Every call gets a
// result, or the provider would refuse the next request. An error ends the run.
func (r *Runner) call(ctx context.Context, job Job, s *state, c pendingCall) error {
	k, ok := job.Skills.Find(c.Name)
	if !ok {
		return r.refuse(ctx, job, s, c, unknownTool(job.Skills, c.Name))
	}
	if k.Name != c.Name {
		r.Slog.InfoContext(ctx, "skill name matched", "asked", c.Name, "skill", k.Name)
	}
	arguments, ok := c.Arguments.Object()
	if !ok {
		return r.refuse(ctx, job, s, c, badArguments(k, []skill.Violation{{Problem: "not a JSON object"}}))
	}
	arguments = storable(arguments)
	if violations := k.Check(arguments); len(violations) > 0 {
		return r.refuse(ctx, job, s, c, badArguments(k, violations))
	}
	return r.execute(ctx, job, s, c, k, arguments)
}

// execute runs a skill and records its result in the same transaction.
func (r *Runner) execute(ctx context.Context, job Job, s *state, c pendingCall, k *skill.Skill, arguments json.RawMessage) error {
	call := skill.Call{
		Workspace: job.Hold.Workspace, Agent: job.Agent, Surface: job.Execution.Surface, Subject: job.Execution.Subject,
		Key: job.Execution.ID + ":" + c.id, Arguments: arguments,
	}
	limited, cancel := context.WithTimeout(ctx, job.SkillTimeout)
	defer cancel()
	begun := r.Clock()
	if err := fault.Point(ctx, "skill.before", call.Key); err != nil {
		return err
	}
	var output json.RawMessage
	before := *s
	err := r.withLanes(limited, job, k, call, func(ctx context.Context, tx lane.Tx) error {
		value, err := invoke(ctx, k, tx, call)
		if err != nil {
			return err
		}
		if output, err = json.Marshal(value); err != nil {
			return skill.Refuse("the skill's result can't be written as JSON")
		}
		output = storable(output)
		fault.Effect(ctx, "skill.ran", call.Key)
		return r.writeResult(ctx, tx, job, s, c, k, outcome{ok: true, input: arguments, output: output, took: r.Clock().Sub(begun)})
	})
	if p, ok := errors.AsType[*panicked](err); ok {
		r.Slog.ErrorContext(ctx, "skill panicked", "skill", k.Name, "panic", fmt.Sprint(p.value), "stack", string(p.stack))
	}
	switch refusal, refused := errors.AsType[*skill.Refusal](err); {
	case err == nil:
		r.Slog.InfoContext(ctx, "skill done", "skill", k.Name, "call", c.id, "duration_ms", r.Clock().Sub(begun).Milliseconds())
		return fault.Point(ctx, "skill.recorded", call.Key)
	case isLost(err):
		return err
	case refused:
		*s = before
		return r.recordFailure(ctx, job, s, c, k, outcome{input: arguments, message: refusal.Reason, took: r.Clock().Sub(begun)})
	case limited.Err() != nil && ctx.Err() == nil:
		*s = before
		return r.recordFailure(ctx, job, s, c, k, outcome{
			input: arguments, message: fmt.Sprintf("the skill took longer than %s", job.SkillTimeout), took: r.Clock().Sub(begun),
		})
	}
	return err
}

// withLanes takes the further lanes that a call's writes need and runs fn in a
// transaction that proves them all.
func (r *Runner) withLanes(ctx context.Context, job Job, k *skill.Skill, call skill.Call, fn func(context.Context, lane.Tx) error) error {
	var requests []lane.Request
	if k.Lanes != nil {
		for _, name := range k.Lanes(call) {
			if name == job.Hold.Lane {
				continue
			}
			if strings.HasPrefix(string(name), "objective:") && strings.HasPrefix(string(call.Subject), "objective:") {
				return skill.Refuse("this run works on another objective: use the objective_id it was given")
			}
			requests = append(requests, lane.Request{Workspace: call.Workspace, Lane: name, Holder: job.Hold.Holder})
		}
	}
	if len(requests) == 0 {
		return r.Lanes.InHold(ctx, job.Hold, fn)
	}
	more := requests[0]
	if len(requests) > 1 {
		return fmt.Errorf("skill %s needs %d further lanes: one is the most", k.Name, len(requests))
	}
	err := r.Lanes.Do(ctx, more, lane.Wait{Limit: laneWait}, func(ctx context.Context, h *lane.Hold) error {
		return r.Lanes.InHold(ctx, lane.Holds{job.Hold, h}, func(ctx context.Context, tx lane.Tx) error {
			if err := fn(ctx, tx); err != nil {
				return err
			}
			tx.Release(r.Lanes, h)
			return nil
		})
	})
	if busy, ok := errors.AsType[*lane.BusyError](err); ok {
		return skill.Refuse("lane %s stayed busy, try again later", busy.Lane)
	}
	return err
}

// laneWait is how long a call waits for a further lane.
const laneWait = 5 * time.Second

// invoke runs the skill; a panic is that call's error.
func invoke(ctx context.Context, k *skill.Skill, tx lane.Tx, call skill.Call) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{value: p, stack: debug.Stack()}
		}
	}()
	return k.Run(ctx, tx, call)
}

type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("the skill panicked: %v", p.value) }
func (p *panicked) Unwrap() error { return &skill.Refusal{Reason: "the skill failed"} }

// outcome is what became of a call.
type outcome struct {
	ok      bool
	input   json.RawMessage
	output  json.RawMessage
	message string // for the model, when it failed
	took    time.Duration
}

// writeResult queues the result of a call that ran and its line in the activity
// log.
func (r *Runner) writeResult(ctx context.Context, tx lane.Tx, job Job, s *state, c pendingCall, k *skill.Skill, o outcome) error {
	status, logged, content := run.Succeeded, activity.Success, string(o.output)
	if !o.ok {
		status, logged, content = run.Errored, activity.Error, o.message
	}
	entry, err := s.add(run.Result, status, c.id, resultBody{
		Call: c.ToolCall, Skill: k.Name,
		Result: llm.ToolResult{CallID: c.ID, Name: c.Name, Content: content, IsError: !o.ok},
	})
	if err != nil {
		return err
	}
	r.Log.Record(ctx, tx.Later(), activity.Entry{
		Agent: job.Agent, Surface: job.Execution.Surface, Skill: k.Name, Status: logged,
		Input: o.input, Output: o.output, Error: o.message, Duration: o.took,
		Execution: job.Execution.ID, ParentExecution: job.Execution.Parent, Attempt: job.Execution.Attempt,
	})
	return r.Runs.Append(tx, job.Execution, entry)
}

func (r *Runner) recordFailure(ctx context.Context, job Job, s *state, c pendingCall, k *skill.Skill, o outcome) error {
	r.Slog.WarnContext(ctx, "skill failed", "skill", k.Name, "call", c.id, "reason", o.message)
	return r.Lanes.InHold(ctx, job.Hold, func(ctx context.Context, tx lane.Tx) error {
		return r.writeResult(ctx, tx, job, s, c, k, o)
	})
}

// refuse records the result of a call that could not be made: nothing ran.
func (r *Runner) refuse(ctx context.Context, job Job, s *state, c pendingCall, note string) error {
	r.Slog.WarnContext(ctx, "call refused", "tool", c.Name, "call", c.id, "arguments", string(c.Arguments), "note", note)
	entry, err := s.add(run.Result, run.Errored, c.id, resultBody{
		Call:   c.ToolCall,
		Result: llm.ToolResult{CallID: c.ID, Name: c.Name, Content: note, IsError: true},
	})
	if err != nil {
		return err
	}
	return r.record(ctx, job, []run.Entry{entry}, nil)
}

// unknownTool is the note on a tool that does not exist: the nearest names first.
func unknownTool(skills *skill.Set, name string) string {
	names := skills.Nearest(name)
	if len(names) > 10 {
		names = names[:10]
	}
	return fmt.Sprintf("The tool %q does not exist. The tools there are, the most similar first: %s. Use one of them, or answer without a tool.",
		clip(name), strings.Join(names, ", "))
}

// badArguments is the note on arguments that don't fit the schema.
func badArguments(k *skill.Skill, violations []skill.Violation) string {
	lines := make([]string, len(violations))
	for i, v := range violations {
		lines[i] = "- " + v.String()
	}
	return fmt.Sprintf("The arguments of %s do not fit its parameters:\n%s\nIts parameters: %s", k.Name, strings.Join(lines, "\n"), k.Parameters)
}

func clip(name string) string {
	if r := []rune(name); len(r) > 64 {
		return string(r[:64]) + "…"
	}
	return name
}
