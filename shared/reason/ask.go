package reason

import (
	"cmp"
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// ask calls the model once and records its answer. It returns an Outcome if the run ends.
func (r *Runner) ask(ctx context.Context, job Job, s *state) (*Outcome, error) {
	if out, err := r.fit(ctx, job, s, cmp.Or(s.limit, job.promptLimit()), false); out != nil || err != nil {
		return out, err
	}
	begun := r.Clock()
	resp, failed, err := r.answer(ctx, job, s, job.request(s), "")
	if llm.ClassOf(failed) == llm.ClassContextTooLong { // the window is smaller than assumed
		before := s.seq
		s.limit = s.weight() / 2
		if out, err := r.fit(ctx, job, s, s.limit, true); out != nil || err != nil {
			return out, err
		}
		if s.seq > before {
			resp, failed, err = r.answer(ctx, job, s, job.request(s), "")
		}
	}
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return r.modelFailed(ctx, s, failed), nil
	}
	if err := fault.Point(ctx, "model.answered", job.Execution.ID); err != nil {
		return nil, err
	}
	also, err := r.checked(ctx, job, s, &resp)
	if err != nil {
		return nil, err
	}
	body := modelBody{Message: resp.Message, Usage: resp.Usage, Lost: resp.Lost.Plus(s.lost), Model: resp.Model, StopReason: resp.StopReason}
	used := body.Usage.Plus(body.Lost)
	if err := r.appendWith(ctx, job, s, execution.Model, "", body, &used, Interim{Also: also}); err != nil {
		return nil, err
	}
	r.Log.InfoContext(ctx, "model answered", "step", s.Steps, "model", resp.Model, "calls", len(resp.Calls),
		"tokens", used.TotalTokens(), "estimated", used.Estimated, "duration_ms", r.Clock().Sub(begun).Milliseconds())
	return nil, fault.Point(ctx, "model.recorded", job.Execution.ID)
}

// answer calls the model once, within a time limit of its own and under holds that outlast it. The
// activity entry of the call is written with the next entry of the journal or at the end of the
// run. failed is the model's own error.
func (r *Runner) answer(ctx context.Context, job Job, s *state, request llm.Request,
	purpose string) (resp llm.Response, failed, err error) {
	if err := r.Lanes.Cover(ctx, job.holds(), modelLimit); err != nil {
		return resp, nil, err
	}
	asking, cancel := context.WithTimeout(ctx, modelLimit)
	defer cancel()
	begun := r.Clock()
	say, rest := job.deltas(asking, s)
	resp, failed = r.generate(asking, job, s, request, s.afterOpening(say, cancel))
	err = s.awaitOpening()
	if failed == nil && err == nil {
		rest()
		if n := len(resp.Calls); n > maxCalls {
			r.Log.WarnContext(ctx, "answer asked for too many calls", "step", s.Steps+1, "calls", n)
			resp.Calls = resp.Calls[:maxCalls+1]
		}
		r.guarded(ctx, s, &resp.Message)
	}
	if !unasked(failed) {
		s.lines = append(s.lines, r.modelLine(job, s, purpose, resp, failed, r.Clock().Sub(begun)))
	}
	used := resp.Used()
	if failed != nil || err != nil {
		s.lost = s.lost.Plus(used)
	}
	if job.Spent != nil && (failed == nil || used != (llm.Usage{})) {
		job.Spent(used)
	}
	return resp, failed, err
}

// maxCalls is how many calls of one answer are made. One more is kept and refused, so that the model is
// told; the others are dropped. More would fill the queue of calls, and each costs transactions.
const maxCalls = 100

// modelFailed decides how a failed model call ends the run. An error that may pass or that a person
// must fix parks the run. Any other error fails it.
func (r *Runner) modelFailed(ctx context.Context, s *state, err error) *Outcome {
	if out := s.spent(err); out != nil {
		return out
	}
	class := llm.ClassOf(err)
	r.Log.ErrorContext(ctx, "model failed", "step", s.Steps, "class", class, "error", err)
	var out Outcome
	switch {
	case ctx.Err() != nil:
		out = s.outcome(execution.Parked, endOf(ctx))
		return &out
	case isUnmetered(err):
		out = s.outcome(execution.Parked, "the budgets can't be reached")
		// A network error is a temporary one.
		out.Halted = !errors.Is(err, db.ErrUncertain) && !errors.Is(err, db.ErrUnavailable)
	case class.Retryable(), class == llm.ClassAuthentication, class == llm.ClassBilling:
		out = s.outcome(execution.Parked, failureOf(err))
		out.Halted = true
	default:
		out = s.outcome(execution.Failed, failureOf(err))
	}
	return &out
}

// pay settles the last call if that failed before, and logs an error.
func (r *Runner) pay(ctx context.Context, s *state) {
	if err := s.pay(ctx); err != nil {
		r.Log.ErrorContext(ctx, "what a call used is still not counted", "error", err)
	}
}

// request returns the next request to the model.
func (j Job) request(s *state) llm.Request {
	return llm.Request{
		Model: j.Model, System: j.System, Messages: s.conversation(), Tools: offer(j.Skills, j.Window, s.done), MaxTokens: j.answerLimit(s),
		Temperature: j.Temperature,
	}
}

// left is how many more tokens the run may use, where that is bounded.
func (j Job) left(s *state) int64 {
	return j.Tokens - int64(s.Usage.Plus(s.lost).TotalTokens())
}

// deltas returns functions that pass on the pieces of an answer with known secrets redacted. say is
// nil if nobody listens. rest passes on the buffered end of a complete answer.
func (j Job) deltas(ctx context.Context, s *state) (say func(llm.Delta), rest func()) {
	if j.Delta == nil || j.Check != nil {
		return nil, func() {}
	}
	text := s.telling()
	say = func(d llm.Delta) {
		if d.Restart {
			text = s.telling()
		}
		d.Text = text.Next(d.Text)
		j.Delta(ctx, d)
	}
	return say, func() {
		if left := text.Rest(); left != "" {
			j.Delta(ctx, llm.Delta{Text: left})
		}
	}
}
