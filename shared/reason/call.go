package reason

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
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
	if violations := k.Check(arguments); len(violations) > 0 {
		return r.refuse(ctx, job, s, c, badArguments(k, violations))
	}
	return r.execute(ctx, job, s, c, k, canonical(arguments))
}

// execute runs a skill and records its result in the same transaction.
func (r *Runner) execute(ctx context.Context, job Job, s *state, c pendingCall, k *skill.Skill, arguments json.RawMessage) error {
	call := skill.Call{
		Workspace: job.Hold.Workspace, Agent: job.Agent, Surface: job.Execution.Surface, Subject: job.Execution.Subject,
		Key: job.Execution.ID + ":" + c.id, Arguments: arguments,
	}
	begun := r.Clock()
	if err := fault.Point(ctx, "skill.before", call.Key); err != nil {
		return err
	}
	before := *s
	err := r.withLanes(ctx, job, k, call, func(ctx context.Context, tx lane.Tx) error {
		output, err := invoke(ctx, job.SkillTimeout, k, tx, call)
		if err != nil {
			return err
		}
		fault.Effect(ctx, "skill.ran", call.Key)
		return r.writeResult(ctx, tx, job, s, c, k, outcome{ok: true, input: arguments, output: output, took: r.Clock().Sub(begun)})
	})
	if err == nil {
		r.Slog.InfoContext(ctx, "skill done", "skill", k.Name, "call", c.id, "duration_ms", r.Clock().Sub(begun).Milliseconds())
		return fault.Point(ctx, "skill.recorded", call.Key)
	}
	*s = before // nothing of it was written
	reason := mendable(err)
	if reason == "" || isLost(err) {
		return err
	}
	if p, ok := errors.AsType[*panicked](err); ok {
		r.Slog.ErrorContext(ctx, "skill panicked", "skill", k.Name, "panic", fmt.Sprint(p.value), "stack", string(p.stack))
	}
	r.Slog.WarnContext(ctx, "skill failed", "skill", k.Name, "call", c.id, "error", err)
	return r.Lanes.InHold(ctx, job.holds(), func(ctx context.Context, tx lane.Tx) error {
		return r.writeResult(ctx, tx, job, s, c, k, outcome{input: arguments, message: reason, took: r.Clock().Sub(begun)})
	})
}

// mendable is what the model is told of an error that is its call's alone; empty
// for one that ends the run.
func mendable(err error) string {
	if refusal, ok := errors.AsType[*skill.Refusal](err); ok {
		return cmp.Or(refusal.Reason, "refused")
	}
	if errors.Is(err, db.ErrCheck) {
		return "the database refused a value of the call"
	}
	return ""
}

// withLanes takes the further lanes that a call's writes need and runs fn in a
// transaction that proves them all.
func (r *Runner) withLanes(ctx context.Context, job Job, k *skill.Skill, call skill.Call, fn func(context.Context, lane.Tx) error) error {
	var requests []lane.Request
	if k.Lanes != nil {
		names, err := lanesOf(k, call)
		if err != nil {
			return err
		}
		for _, name := range names {
			if name == job.Hold.Lane {
				continue
			}
			if strings.HasPrefix(string(name), "objective:") && strings.HasPrefix(string(call.Subject), "objective:") {
				return skill.Refuse("this run works on another objective: use the objective_id it was given")
			}
			requests = append(requests, lane.Request{Workspace: call.Workspace, Lane: name, Holder: job.Hold.Holder, Under: job.Hold})
		}
	}
	if len(requests) == 0 {
		return r.Lanes.InHold(ctx, job.holds(), fn)
	}
	more := requests[0]
	if len(requests) > 1 {
		return fmt.Errorf("skill %s needs %d further lanes: one is the most", k.Name, len(requests))
	}
	err := r.Lanes.Do(ctx, more, lane.Wait{Limit: min(laneWait, job.SkillTimeout)}, func(ctx context.Context, h *lane.Hold) error {
		return r.Lanes.InHold(ctx, job.holds(h), func(ctx context.Context, tx lane.Tx) error {
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

// invoke runs the skill within its time and encodes what it brings; a panic is
// that call's error.
func invoke(ctx context.Context, limit time.Duration, k *skill.Skill, tx lane.Tx, call skill.Call) (output json.RawMessage, err error) {
	defer recovered(&err)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	value, err := k.Run(limited, tx, call)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil, skill.Refuse("the skill took longer than %s", limit)
	}
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, skill.Refuse("the skill's result can't be written as JSON")
	}
	return activity.Storable(raw), nil
}

func lanesOf(k *skill.Skill, call skill.Call) (names []lane.Name, err error) {
	defer recovered(&err)
	return k.Lanes(call), nil
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &panicked{value: p, stack: debug.Stack()}
	}
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
		Result: llm.ToolResult{CallID: c.ID, Name: c.Name, Content: shortened(content), IsError: !o.ok},
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
		clip(name, maxName), strings.Join(names, ", "))
}

// badArguments is the note on arguments that don't fit the schema.
func badArguments(k *skill.Skill, violations []skill.Violation) string {
	var lines []string
	for i, v := range violations {
		if i == maxViolations {
			lines = append(lines, fmt.Sprintf("- and %d more", len(violations)-i))
			break
		}
		lines = append(lines, "- "+clip(v.String(), maxViolation))
	}
	return fmt.Sprintf("The arguments of %s do not fit its parameters:\n%s\nIts parameters: %s", k.Name, strings.Join(lines, "\n"), k.Parameters)
}

// Bounds of what a model is told, in bytes where nothing else is said.
const (
	maxName       = 64
	maxViolation  = 300
	maxViolations = 20 // lines
	maxContent    = 32 << 10
)

// shortened is a result as a model gets it: one that is too long is cut, and says so.
func shortened(content string) string {
	if len(content) <= maxContent {
		return content
	}
	return fmt.Sprintf("%s\n(cut: this is the beginning of %d bytes)", clip(content, maxContent), len(content))
}

// clip is at most n bytes of s, whole characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// canonical is the arguments in the one reading that the skill and the log share:
// the last of equal keys, 5 for 5.0, and nothing that could not be stored.
func canonical(arguments json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.UseNumber()
	var v map[string]any
	if d.Decode(&v) != nil {
		return arguments // they have been checked, and decode
	}
	plain(v)
	raw, err := json.Marshal(v)
	if err != nil {
		return arguments
	}
	return activity.Storable(raw)
}

// plain writes whole numbers as such, wherever they stand: a schema takes 5.0 for
// an integer, Go does not.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return json.Number(strconv.FormatInt(int64(f), 10))
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}
