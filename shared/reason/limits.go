package reason

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Halts is what people have switched off at one moment.
type Halts interface {
	// Run says why no run of the agent on the model goes on; empty: it may.
	Run(agent, model string) string
	// Skill says why the skill is not called; empty: it may be.
	Skill(name string) string
}

// nothing is switched off.
type nothing struct{}

func (nothing) Run(string, string) string { return "" }
func (nothing) Skill(string) string       { return "" }

// Meter keeps what models use within budgets.
type Meter interface {
	// Reserve puts aside what one call may use, and answers how long the answer may
	// be at most and how to settle it. A budget that has not enough left refuses by a
	// [*SpentError].
	Reserve(ctx context.Context, c Cost) (output int, settle Settle, err error)
}

// Cost is what one call of a model may use, and for whom.
type Cost struct {
	Workspace db.Workspace
	Agent     string
	Surface   trace.Surface
	Execution string
	Trace     trace.ID
	Model     string
	Input     int   // tokens of the prompt, about
	Output    int   // the most that the answer may have
	Day       int64 // tokens that the agent's day has, where it has a budget
}

// Settle ends a reservation: with what was used, or nil where nothing was.
type Settle func(ctx context.Context, used *llm.Response) error

// SpentError says that a budget has not enough left.
type SpentError struct{ Why string }

func (e *SpentError) Error() string { return e.Why }

// meterError is a meter's own failure.
type meterError struct{ error }

func (e *meterError) Unwrap() error { return e.error }

func isUnmetered(err error) bool {
	_, ok := errors.AsType[*meterError](err)
	return ok
}

// look reads what is switched off. It is asked before each step, so that a switch
// has its effect within one.
func (r *Runner) look(ctx context.Context, job Job, s *state) (*Outcome, error) {
	if r.Switches == nil {
		return nil, nil //nolint:nilnil // the run goes on
	}
	halts, err := r.Switches(ctx, job.Hold.Workspace)
	if err != nil {
		return nil, err
	}
	s.halts = halts
	if why := halts.Run(job.Agent, s.model.Name()); why != "" {
		out := s.outcome(run.Parked, why)
		out.Halted = true
		return &out, nil
	}
	return nil, nil //nolint:nilnil // the run goes on
}

// switchedOff is the note on a skill that a person has switched off.
func switchedOff(k *skill.Skill, why string) string {
	return fmt.Sprintf("%s is switched off: %s. Do without it.", k.Name, why)
}

// generate asks the model for one answer within the budgets. What was reserved and
// could not be settled lapses by itself.
func (r *Runner) generate(ctx context.Context, job Job, s *state, request llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	settle := func(context.Context, *llm.Response) error { return nil }
	if r.Meter != nil {
		var err error
		request.MaxTokens, settle, err = r.Meter.Reserve(ctx, Cost{
			Workspace: job.Hold.Workspace, Agent: job.Agent, Surface: job.Execution.Surface, Execution: job.Execution.ID,
			Trace: job.Execution.Trace, Model: s.model.Name(), Input: estimate(request), Output: cmp.Or(request.MaxTokens, usualAnswer), Day: job.Day,
		})
		if err != nil {
			return llm.Response{}, &meterError{err}
		}
	}
	resp, err := s.model.Generate(ctx, request, onDelta)
	if err != nil {
		if failed := settle(context.WithoutCancel(ctx), nil); failed != nil {
			r.Slog.WarnContext(ctx, "reservation left to lapse", "error", failed)
		}
		return resp, err
	}
	if failed := settle(context.WithoutCancel(ctx), &resp); failed != nil {
		return resp, &meterError{failed}
	}
	return resp, nil
}

// usualAnswer is the most tokens of an answer that nothing else bounds.
const usualAnswer = 4096

// estimate is about how many tokens a request has.
func estimate(r llm.Request) int {
	n := tokens(r.System) + size(r.Messages)
	for _, t := range r.Tools {
		n += tokens(t.Name + t.Description + string(t.Parameters))
	}
	return n
}

// spent is the end of a run whose budget is used up; nil: the error is another.
func (s *state) spent(err error) *Outcome {
	over, ok := errors.AsType[*SpentError](err)
	if !ok {
		return nil
	}
	out := s.outcome(run.Parked, over.Why)
	out.Halted = true
	return &out
}
