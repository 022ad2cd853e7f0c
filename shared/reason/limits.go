package reason

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Halts is a snapshot of the kill switches.
type Halts interface {
	// Run returns why no run of the agent with the model continues, or "" if it may. A model may
	// have several names.
	Run(agent string, models ...string) string
	// Skill returns why the skill is not called, or "" if it may be.
	Skill(name string) string
}

// nothing is a snapshot without kill switches.
type nothing struct{}

func (nothing) Run(string, ...string) string { return "" }
func (nothing) Skill(string) string          { return "" }

// Meter keeps the use of models within budgets.
type Meter interface {
	// Reserve reserves the cost of one call. It returns the longest allowed answer in tokens, and
	// the function that settles the reservation. It returns a [*SpentError] if a budget has too
	// little left.
	Reserve(ctx context.Context, c Cost) (output int, settle Settle, err error)
}

// Cost is the largest cost of one model call, and the accounts that pay it.
type Cost struct {
	Workspace db.Workspace
	Agent     string
	Surface   trace.Surface
	Execution string
	Trace     trace.ID
	Model     string // the model's id
	Input     int    // estimated tokens of the prompt
	Output    int    // longest answer, in tokens
	Task      string // that the call is for; empty: none
	Attempt   int    // at the task

	Day, DayMicroUSD int64 // see [Job]
	Priced           bool
	// Unbudgeted says that nobody has made a budget in the workspace, as was read just before.
	Unbudgeted bool
}

// Settle ends a reservation with the usage and the skills that the answer calls; used is nil if
// nothing was used. It returns the cost in millionths of a dollar as far as it is known, even with
// an error. It is idempotent.
type Settle func(ctx context.Context, used *llm.Response, skills []string) (microUSD int64, err error)

// SpentError says that a budget has too little left, or that the cost of a call is unknown.
type SpentError struct {
	Why   string
	Short bool // the budget is not used up, and has too little left for this call
}

func (e *SpentError) Error() string { return e.Why }

// HaltedError says that a kill switch stops the request.
type HaltedError struct{ Why string }

func (e *HaltedError) Error() string { return e.Why }

// meterError is a failure of the meter itself.
type meterError struct{ error }

func (e *meterError) Unwrap() error { return e.error }

func isUnmetered(err error) bool {
	_, ok := errors.AsType[*meterError](err)
	return ok
}

// unasked reports whether a call failed before the model got the request.
func unasked(err error) bool {
	_, spent := errors.AsType[*SpentError](err)
	return spent || isUnmetered(err)
}

// LeastCost returns the least cost of a new job: that of its first request, with the shortest answer for which a model
// is called.
func (r *Runner) LeastCost(ws db.Workspace, job Job) Cost {
	input := estimate(llm.Request{System: job.System, Messages: job.Messages, Tools: offer(job.Skills, job.Window, nil)})
	if most := job.promptLimit(); most > 0 {
		input = min(input, most) // what is longer is summarised first
	}
	return Cost{
		Workspace: ws, Agent: job.Agent, Surface: job.Execution.Surface, Execution: job.Execution.ID, Trace: job.Execution.Trace,
		Model: cmp.Or(job.Model, r.ModelID, r.model(ws).Name()), Input: input, Output: min(LeastAnswer, cmp.Or(job.MaxTokens, LeastAnswer)),
	}
}

// Affords reports whether the budgets have a cost left: it reserves it, and gives it back.
func (r *Runner) Affords(ctx context.Context, c Cost) (bool, error) {
	if r.Meter == nil {
		return true, nil
	}
	_, settle, err := r.Meter.Reserve(ctx, c)
	if _, spent := errors.AsType[*SpentError](err); spent {
		return false, nil
	}
	if err == nil {
		_, err = settle(ctx, nil, nil)
	}
	return err == nil, err
}

// Unpriced returns the model without a price among those that may answer where model is asked for, or "" if each has one or
// the meter knows no prices. Such a model is not called where a budget is capped in money. An empty model is the usual one.
func (r *Runner) Unpriced(ctx context.Context, ws db.Workspace, model string) (string, error) {
	if m, ok := r.Meter.(interface {
		Unpriced(ctx context.Context, model string) (string, error)
	}); ok {
		return m.Unpriced(ctx, cmp.Or(model, r.ModelID, r.model(ws).Name()))
	}
	return "", nil
}

// look reads the kill switches. It is called before each step, so that a switch takes effect within
// one step.
func (r *Runner) look(ctx context.Context, job Job, s *state) (*Outcome, error) {
	var known Halts
	if s.basis != nil { // it is for the first step
		known, s.unbudgeted, s.basis = s.basis.Halts, s.basis.Unbudgeted, nil
	}
	halts, err := r.halts(ctx, job.Hold.Workspace, known, s.model, job.Model, job.Agent, job.AgentID)
	if halted, ok := errors.AsType[*HaltedError](err); ok {
		out := s.outcome(execution.Parked, halted.Why)
		out.Halted, out.Switched = true, true
		return &out, nil
	}
	s.halts = halts
	return nil, err
}

// halts reads the kill switches, unless they are known. It returns a [*HaltedError] if they stop the
// agent, by one of its names, or the model with that id; an empty id means the usual model.
func (r *Runner) halts(ctx context.Context, ws db.Workspace, known Halts, m llm.Model, id string, names ...string) (halts Halts, err error) {
	switch halts = known; {
	case halts != nil:
	case r.Switches == nil:
		return nothing{}, nil
	default:
		if halts, err = r.Switches(ctx, ws); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if why := halts.Run(name, cmp.Or(id, r.ModelID), m.Name()); why != "" {
			return halts, &HaltedError{why}
		}
	}
	return halts, nil
}

// switchedOff returns the text for the model about a skill that a kill switch stops.
func switchedOff(k *skill.Skill, why string) string {
	return fmt.Sprintf("%s is switched off: %s. Do without it.", k.Name, why)
}

// generate requests one answer from the model within the budgets.
func (r *Runner) generate(ctx context.Context, job Job, s *state, request llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	return r.metered(ctx, s, Cost{
		Workspace: job.Hold.Workspace, Agent: job.Agent, Surface: job.Execution.Surface, Execution: job.Execution.ID,
		Trace: job.Execution.Trace, Day: job.Day, DayMicroUSD: job.DayMicroUSD, Priced: job.Priced,
		Task: job.Task, Attempt: job.TaskAttempt,
	}, job.Skills, request, onDelta)
}

// metered requests one answer whose cost the budgets cover. If the usage cannot be settled, the
// answer is kept, and the settlement is retried before the next call. A reservation that is never
// settled expires.
func (r *Runner) metered(ctx context.Context, s *state, c Cost, skills *skill.Set, request llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	request.System, request.Messages = discreetText(s.known, request.System), discreetMessages(s.known, request.Messages)
	if r.Meter == nil {
		resp, err := r.generated(ctx, s, request, onDelta)
		if err == nil {
			resp.Usage = measured(request, resp)
		}
		return resp, err
	}
	if err := s.pay(ctx); err != nil {
		return llm.Response{}, &meterError{err}
	}
	c.Model = cmp.Or(request.Model, r.ModelID, s.model.Name())
	c.Input, c.Output = estimate(request), cmp.Or(request.MaxTokens, usualAnswer)
	c.Unbudgeted, s.unbudgeted = s.unbudgeted, false
	most, settle, err := r.Meter.Reserve(ctx, c)
	if err != nil {
		return llm.Response{}, &meterError{err}
	}
	request.MaxTokens = most
	resp, err := r.generated(ctx, s, request, onDelta)
	var asked []string
	if err == nil {
		resp.Usage, asked = measured(request, resp), askedFor(skills, resp.Calls)
	}
	after, cancel := lastSettle(ctx)
	defer cancel()
	used := &llm.Response{Message: resp.Message, Model: resp.Model, Usage: resp.Used()} // interrupted tries cost, too
	if err != nil && used.Usage == (llm.Usage{}) {
		if _, failed := settle(after, nil, nil); failed != nil {
			r.Log.WarnContext(ctx, "reservation left to lapse", "error", failed)
		}
		return resp, err
	}
	var failed error
	if resp.Usage.MicroUSD, failed = settle(after, used, asked); failed != nil {
		r.Log.ErrorContext(ctx, "what a call used is not counted yet", "tokens", used.Usage.TotalTokens(), "error", failed)
		s.owed = func(ctx context.Context) error { _, err := settle(ctx, used, asked); return err }
	}
	return resp, err
}

// generated requests one answer and records the call as a span.
func (r *Runner) generated(ctx context.Context, s *state, request llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	model := cmp.Or(request.Model, r.ModelID, s.model.Name())
	call := r.Spans.Start(ctx, span.Chat, model, span.Client)
	resp, err := s.model.Generate(ctx, request, onDelta)
	if call == nil {
		return resp, err
	}
	used := resp.Usage
	call.Text("gen_ai.provider.name", providerName(s.model.Name()))
	call.Text("gen_ai.request.model", model)
	call.Number("gen_ai.request.max_tokens", request.MaxTokens)
	call.Text("gen_ai.response.model", resp.Model)
	call.List("gen_ai.response.finish_reasons", string(resp.StopReason))
	call.Number("gen_ai.usage.input_tokens", used.PromptTokens+used.CacheReadTokens+used.CacheWriteTokens)
	call.Number("gen_ai.usage.output_tokens", used.CompletionTokens)
	call.Number("gen_ai.usage.cache_read.input_tokens", used.CacheReadTokens)
	call.Number("gen_ai.usage.cache_creation.input_tokens", used.CacheWriteTokens)
	if err != nil {
		call.Fail(string(llm.ClassOf(err)))
	}
	call.End()
	return resp, err
}

// providerName returns the name of a provider in the conventions for generative AI.
func providerName(name string) string {
	if name == "bedrock" {
		return "aws.bedrock"
	}
	return name
}

// pay settles the last call if that failed before.
func (s *state) pay(ctx context.Context) error {
	if s.owed == nil {
		return nil
	}
	after, cancel := lane.LastWritesWithin(ctx, settleLimit)
	defer cancel()
	err := s.owed(after)
	if err == nil {
		s.owed = nil
	}
	return err
}

// usualAnswer is the longest answer in tokens if nothing else limits it.
const usualAnswer = 4096

// spent returns the outcome of a run whose budget is used up. It returns nil for any other error.
func (s *state) spent(err error) *Outcome {
	over, ok := errors.AsType[*SpentError](err)
	if !ok {
		return nil
	}
	out := s.outcome(execution.Parked, over.Why)
	out.Halted, out.Short = true, over.Short
	return &out
}
