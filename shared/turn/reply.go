package turn

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Reply is what came of a turn so far.
type Reply struct {
	Status    execution.Status // of its execution; parked: it goes on by itself
	Answer    string
	Reason    string // why it is not completed, or what its answer lacks
	Execution string
	Trace     trace.ID
	Thread    string
	// AnsweredBy is the execution that answers the message with others; empty: this one does.
	AnsweredBy string
	// Prompt and Completion count the tokens of its model calls.
	Prompt, Completion int64
	// Approvals are what it waits for.
	Approvals []string
	// NotUndone are the effects of a turn that was rolled back which stay.
	NotUndone []Effect
}

// replyOf reads how a turn stands.
func (r *Runner) replyOf(e execution.Execution) Reply {
	var result struct {
		Answer  string   `json:"answer"`
		Reason  string   `json:"reason"`
		Summary string   `json:"summary"`
		Waits   []string `json:"waits"`
		Joined  string   `json:"answeredBy"`
	}
	_ = json.Unmarshal(e.Result, &result) // none: it has not come that far
	a, _ := r.askedOf(e)
	out := Reply{
		Status: e.Status, Answer: result.Answer, Reason: cmp.Or(result.Reason, e.Error), Execution: e.ID, Trace: e.Trace, Thread: a.Thread,
		Prompt: e.PromptTokens, Completion: e.CompletionTokens,
	}
	switch e.Status {
	case execution.Waiting:
		out.Approvals, out.Reason = result.Waits, "a call waits for a person"
	case execution.Running, execution.Parked: // one that was cut off runs no more
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

// ThreadOf returns the thread of an execution that is a turn.
func (r *Runner) ThreadOf(e execution.Execution) (thread string, ok bool) {
	a, ok := r.askedOf(e)
	return a.Thread, ok
}

// reply reads how the turn stands after it ended with err. One that is written down
// goes on by itself, whatever has cut it off here.
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

// stands is the turn's execution as it is now.
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

// stoppedBy stands between the way in which a turn was stopped and the person.
const stoppedBy = " by "

// stopped is the reason of a turn that was stopped in a way by a person.
func stopped(mode Multitask, by string) string { return string(mode) + stoppedBy + by }
