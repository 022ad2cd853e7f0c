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
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Halts is what people have switched off at one moment.
type Halts interface {
	// Run says why no run of the agent goes on that asks a model, which may go by
	// several names; empty: it may.
	Run(agent string, models ...string) string
	// Skill says why the skill is not called; empty: it may be.
	Skill(name string) string
}

// nothing is switched off.
type nothing struct{}

func (nothing) Run(string, ...string) string { return "" }
func (nothing) Skill(string) string          { return "" }

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
	Model     string // its id
	Input     int    // tokens of the prompt, about
	Output    int    // the most that the answer may have

	Day, DayMicroUSD int64 // see [Job]
	Priced           bool
}

// Settle ends a reservation: with what was used and the skills that the answer asks
// for, or nil where nothing was used. It answers what that cost in millionths of a
// dollar, also with an error, as far as that is known. Settling again changes nothing.
type Settle func(ctx context.Context, used *llm.Response, skills []string) (microUSD int64, err error)

// SpentError says that a budget has not enough left, or can't say what a call costs.
type SpentError struct{ Why string }

func (e *SpentError) Error() string { return e.Why }

// HaltedError says that a person has switched off what was asked for.
type HaltedError struct{ Why string }

func (e *HaltedError) Error() string { return e.Why }

// meterError is a meter's own failure.
type meterError struct{ error }

func (e *meterError) Unwrap() error { return e.error }

func isUnmetered(err error) bool {
	_, ok := errors.AsType[*meterError](err)
	return ok
}

// unasked reports whether a call failed before the model was asked.
func unasked(err error) bool {
	_, spent := errors.AsType[*SpentError](err)
	return spent || isUnmetered(err)
}

// look reads what is switched off. It is asked before each step, so that a switch
// has its effect within one.
func (r *Runner) look(ctx context.Context, job Job, s *state) (*Outcome, error) {
	halts, err := r.halts(ctx, job.Hold.Workspace, job.Agent, s.model, job.Model)
	if halted, ok := errors.AsType[*HaltedError](err); ok {
		out := s.outcome(execution.Parked, halted.Why)
		out.Halted = true
		return &out, nil
	}
	s.halts = halts
	return nil, err
}

// halts reads what is switched off: a [*HaltedError] where that is the agent, or the
// model of that id, the usual one where it is empty.
func (r *Runner) halts(ctx context.Context, ws db.Workspace, agent string, m llm.Model, id string) (Halts, error) {
	if r.Switches == nil {
		return nothing{}, nil
	}
	halts, err := r.Switches(ctx, ws)
	if err != nil {
		return nil, err
	}
	if why := halts.Run(agent, cmp.Or(id, r.ModelID), m.Name()); why != "" {
		return halts, &HaltedError{why}
	}
	return halts, nil
}

// switchedOff is the note on a skill that a person has switched off.
func switchedOff(k *skill.Skill, why string) string {
	return fmt.Sprintf("%s is switched off: %s. Do without it.", k.Name, why)
}

// generate asks the model for one answer within the budgets.
func (r *Runner) generate(ctx context.Context, job Job, s *state, request llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	return r.metered(ctx, s, Cost{
		Workspace: job.Hold.Workspace, Agent: job.Agent, Surface: job.Execution.Surface, Execution: job.Execution.ID,
		Trace: job.Execution.Trace, Day: job.Day, DayMicroUSD: job.DayMicroUSD, Priced: job.Priced,
	}, job.Skills, request, onDelta)
}

// metered asks the model for one answer, at a cost that the budgets have. An answer is
// kept also where what it used can't be counted: that is tried again, and there is no
// further call before it is. What was reserved and not settled lapses by itself.
func (r *Runner) metered(ctx context.Context, s *state, c Cost, skills *skill.Set, request llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	request.System, request.Messages = discreetText(s.known, request.System), discreetMessages(s.known, request.Messages)
	if r.Meter == nil {
		resp, err := s.model.Generate(ctx, request, onDelta)
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
	most, settle, err := r.Meter.Reserve(ctx, c)
	if err != nil {
		return llm.Response{}, &meterError{err}
	}
	request.MaxTokens = most
	resp, err := s.model.Generate(ctx, request, onDelta)
	var asked []string
	if err == nil {
		resp.Usage, asked = measured(request, resp), askedFor(skills, resp.Calls)
	}
	after, cancel := lastSettle(ctx)
	defer cancel()
	used := &llm.Response{Message: resp.Message, Model: resp.Model, Usage: resp.Used()} // what broke off is paid for, too
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

// pay settles the last call, where that could not be done at once.
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

// usualAnswer is the most tokens of an answer that nothing else bounds.
const usualAnswer = 4096

// spent is the end of a run whose budget is used up; nil: the error is another.
func (s *state) spent(err error) *Outcome {
	over, ok := errors.AsType[*SpentError](err)
	if !ok {
		return nil
	}
	out := s.outcome(execution.Parked, over.Why)
	out.Halted = true
	return &out
}
