package turn

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Reply is the result of a turn so far.
type Reply struct {
	Status    execution.Status // parked: the turn continues by itself
	Answer    string
	Reason    string // why it is not completed, or what is missing in the answer
	Execution string
	Trace     trace.ID
	Thread    string
	// AnsweredBy is the execution that answers the message together with others; empty: this one.
	AnsweredBy string
	// Prompt and Completion are the numbers of tokens of its model calls.
	Prompt, Completion int64
	// Approvals lists the approvals that it waits for.
	Approvals []string
	// NotUndone lists the effects of a rolled-back turn that remain.
	NotUndone []Effect
}

// replyOf returns the state of a turn.
func (r *Runner) replyOf(e execution.Execution) Reply {
	var result struct {
		Answer  string   `json:"answer"`
		Reason  string   `json:"reason"`
		Summary string   `json:"summary"`
		Waits   []string `json:"waits"`
		Joined  string   `json:"answeredBy"`
	}
	_ = json.Unmarshal(e.Result, &result) // no result yet
	a, _ := r.askedOf(e)
	out := Reply{
		Status: e.Status, Answer: result.Answer, Reason: cmp.Or(result.Reason, e.Error), Execution: e.ID, Trace: e.Trace, Thread: a.Thread,
		Prompt: e.PromptTokens, Completion: e.CompletionTokens,
	}
	switch e.Status {
	case execution.Waiting:
		out.Approvals, out.Reason = result.Waits, "a call waits for a person"
	case execution.Running, execution.Parked: // a turn that was cut off does not run any more
		out.Status, out.Reason = execution.Parked, cmp.Or(out.Reason, "it was cut off")+"; it goes on by itself"
	case execution.Stalled, execution.Failed, execution.Cancelled:
		if result.Summary != "" {
			out.Reason += "; " + result.Summary
		}
	case execution.Completed:
		if result.Joined != "" {
			out.AnsweredBy = result.Joined
			out.Reason = "it is answered by execution " + result.Joined
		}
	}
	return out
}

// AskedOf returns the thread and the message of an execution that is a turn.
func (r *Runner) AskedOf(e execution.Execution) (thread, message string, ok bool) {
	a, ok := r.askedOf(e)
	return a.Thread, a.Message, ok
}

// AfterOf returns the execution whose answer the message of a turn follows; empty: none was named.
func (r *Runner) AfterOf(e execution.Execution) string {
	a, _ := r.askedOf(e)
	return a.After
}

// reply returns the state of the turn after it ended with err. A stored turn that was cut off
// continues by itself.
func (s *turn) reply(ctx context.Context, err error) (Reply, error) {
	if !s.started {
		return Reply{}, err
	}
	if err != nil {
		s.ended = nil
	}
	e := s.stands(ctx)
	if by := answeredBy(e); by != "" {
		s.exec.ID, s.ended = by, nil
		e = s.stands(ctx)
	} else if err != nil {
		s.Log.WarnContext(ctx, "a turn was cut off", "error", err)
	}
	r := s.replyOf(e)
	r.NotUndone = s.stays
	return r, nil
}

// stands returns the turn's execution in its present state.
func (s *turn) stands(ctx context.Context) execution.Execution {
	if s.ended != nil && len(*s.ended) > 0 {
		return (*s.ended)[0]
	}
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	e, err := s.Runs.Get(last, s.ws, s.exec.ID)
	if err != nil {
		s.Log.ErrorContext(ctx, "how a turn stands can't be read", "error", err)
		e = s.exec
		e.Status = execution.Running
	}
	return e
}

// stoppedBy separates the way in which a turn was stopped from the person's name.
const stoppedBy = " by "

// stopped returns the reason of a turn that a person has stopped.
func stopped(mode Multitask, by string) string { return string(mode) + stoppedBy + by }
