package reason

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A Variation holds the differences of a replay. The zero value repeats the run.
type Variation struct {
	Model string // another model of the provider
	// Temperature is 0 to 2; nil: the provider's default.
	Temperature *float64
	System      string // another system prompt
	// Rephrase changes the recorded system prompt if System is empty; nil: no change.
	Rephrase func(recorded string) string
	Window   int // context window of the model, in tokens; 0: unknown
}

// Replayed compares a run with the answers that a model gives now. Each step is requested with the
// recorded conversation, so that one difference does not hide the next.
type Replayed struct {
	Execution string
	Steps     []ReplayedStep
	Usage     llm.Usage // of the replay
}

// ReplayedStep compares two answers to the same step.
type ReplayedStep struct {
	Step               int
	Recorded, Replayed Answer
	// Differs names the differences: text, calls, stop reason.
	Differs []string
}

// Answer is an answer of a model, without its cost.
type Answer struct {
	Text       string
	Calls      []llm.ToolCall
	StopReason llm.StopReason
	Model      string
}

// ErrNoJournal says that an execution has no steps to repeat.
var ErrNoJournal = errors.New("the execution has no recorded steps")

// Replay asks the model again for each recorded step and compares the answers, within the budgets
// and the kill switches. It calls no skill and writes no step. If the model fails, a budget is used
// up ([SpentError]) or a switch is on ([HaltedError]), it returns the comparison so far with the
// error.
func (r *Runner) Replay(ctx context.Context, ws db.Workspace, of execution.Execution, skills *skill.Set, v Variation) (Replayed, error) {
	out := Replayed{Execution: of.ID}
	entries, err := r.Runs.Journal(ctx, ws, of.ID, 0)
	if err != nil {
		return out, err
	}
	ctx = r.discreet(ctx, ws)
	s := &state{model: r.model(ws), known: redact.From(ctx).Values()}
	defer r.pay(ctx, s)
	id, _ := trace.From(ctx)
	cost := Cost{Workspace: ws, Agent: of.Agent, Surface: trace.Operate, Execution: of.ID, Trace: id}
	for _, e := range entries {
		var recorded modelBody
		if e.Kind == execution.Model {
			if err := folded(e, func(b modelBody) error { recorded = b; return nil }); err != nil {
				return out, fmt.Errorf("replay entry %d: %w", e.Seq, err)
			}
			offered := skills.Only(s.skills...)
			_, err := r.halts(ctx, ws, nil, s.model, v.Model, of.Agent)
			var resp llm.Response
			if err == nil {
				resp, err = r.metered(ctx, s, cost, offered, llm.Request{
					Model: v.Model, System: v.system(s.system), Messages: s.conversation(), Tools: offer(offered, v.Window, s.done),
					MaxTokens: usualAnswer, Temperature: v.Temperature,
				}, nil)
			}
			if err != nil {
				return out, fmt.Errorf("replay step %d: %w", e.Step, err)
			}
			out.Usage = out.Usage.Plus(resp.Used())
			out.Steps = append(out.Steps, compare(e.Step, recorded, resp))
		}
		if err := s.fold(e); err != nil {
			return out, fmt.Errorf("replay entry %d: %w", e.Seq, err)
		}
	}
	if len(out.Steps) == 0 {
		return out, ErrNoJournal
	}
	return out, nil
}

// system returns the system prompt of a replayed step.
func (v Variation) system(recorded string) string {
	switch {
	case v.System != "":
		return v.System
	case v.Rephrase != nil:
		return v.Rephrase(recorded)
	}
	return recorded
}

func compare(step int, recorded modelBody, resp llm.Response) ReplayedStep {
	out := ReplayedStep{
		Step:     step,
		Recorded: Answer{recorded.Message.Text, recorded.Message.Calls, recorded.StopReason, recorded.Model},
		Replayed: Answer{resp.Text, resp.Calls, resp.StopReason, resp.Model},
	}
	if out.Recorded.Text != out.Replayed.Text {
		out.Differs = append(out.Differs, "text")
	}
	if !slices.EqualFunc(out.Recorded.Calls, out.Replayed.Calls, sameCall) {
		out.Differs = append(out.Differs, "calls")
	}
	if out.Recorded.StopReason != out.Replayed.StopReason {
		out.Differs = append(out.Differs, "stop_reason")
	}
	return out
}

// sameCall compares two calls without their ids, which are random.
func sameCall(a, b llm.ToolCall) bool {
	if a.Name != b.Name {
		return false
	}
	x, ok := a.Arguments.Object()
	y, ok2 := b.Arguments.Object()
	if !ok || !ok2 {
		return a.Arguments == b.Arguments
	}
	return bytes.Equal(canonical(x), canonical(y))
}
