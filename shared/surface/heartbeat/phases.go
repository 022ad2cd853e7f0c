package heartbeat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// caps bound what one beat may spend.
type caps struct {
	calls  int
	tokens int64
}

func (c *caps) spend(u llm.Usage) {
	c.calls--
	c.tokens -= int64(u.TotalTokens())
}

// stop parks a run whose beat has spent what it may.
func (c *caps) stop(context.Context, reason.Progress) *reason.Stopped {
	switch {
	case c.calls <= 0:
		return &reason.Stopped{Status: run.Parked, Reason: "the beat's model calls are used up"}
	case c.tokens <= 0:
		return &reason.Stopped{Status: run.Parked, Reason: "the beat's tokens are used up"}
	}
	return nil
}

// phases runs plan and advance, each logged when it ends. Work that was left on
// loose objectives is closed by the latter.
func (b *beat) phases(ctx context.Context, due, loose []objective.Due) error {
	var unplanned []objective.Due
	for _, d := range due {
		if d.NeedsPlan() {
			unplanned = append(unplanned, d)
		}
	}
	if err := b.phase(ctx, planning, unplanned); err != nil {
		return err
	}
	return b.phase(ctx, advancing, slices.Concat(due, loose))
}

// kind is one of the two works on an objective.
type kind struct {
	phase  string // its name
	task   string // what the model is told
	prompt string
	skills []string // what it may use; nil: everything internal
}

// phase does one kind of work on each objective under its lane, the most urgent
// first, until something asks for an end.
func (b *beat) phase(ctx context.Context, k kind, due []objective.Due) error {
	p := Phase{Name: k.phase, Considered: len(due)}
	begun := b.Clock()
	for i, d := range due {
		if stop := b.mustStop(ctx); stop != "" {
			p.Left += len(due) - i
			b.park(stop)
			break
		}
		err := b.work(ctx, &p, k, d)
		switch {
		case err == nil:
		case ctx.Err() != nil && !errors.Is(err, lane.ErrLost):
			b.Slog.WarnContext(ctx, "objective left: interrupted", "phase", p.Name, "objective", d.Title, "error", err)
			p.Left++
			b.park("the time was up")
		default:
			return err
		}
	}
	took := b.Clock().Sub(begun)
	p.DurationMS = took.Milliseconds()
	b.report.Phases = append(b.report.Phases, p)
	b.report.Tokens += p.Tokens
	b.report.CostUSD += p.CostUSD
	b.report.Left += p.Left
	b.Slog.InfoContext(ctx, "phase ended", "phase", p.Name, "considered", p.Considered, "done", p.Done, "failed", p.Failed,
		"left", p.Left, "tokens", p.Tokens, "duration_ms", p.DurationMS)
	last, cancel := lastWrites(ctx)
	defer cancel()
	return b.Lanes.InHold(last, b.hold, func(ctx context.Context, tx lane.Tx) error {
		b.Log.Record(ctx, tx.Later(), activity.Entry{
			Agent: activity.Operator, Surface: trace.Heartbeat, Skill: "heartbeat." + p.Name, Status: activity.Success,
			Output: encode(p.stored()), Usage: p.usage(), Duration: took, Attempt: b.exec.Attempt,
		})
		return nil
	})
}

// mustStop says why no further piece of work may begin.
func (b *beat) mustStop(ctx context.Context) string {
	if b.halted != "" {
		return b.halted
	}
	for _, stop := range []reason.Stop{reason.Deadline(), reason.Wanted(b.hold), b.caps.stop} {
		if s := stop(ctx, reason.Progress{}); s != nil {
			return s.Reason
		}
	}
	return ""
}

func (b *beat) park(why string) {
	b.report.Outcome, b.report.Reason = Parked, why
}

// work does one piece of work on one objective under its lane.
func (b *beat) work(ctx context.Context, p *Phase, k kind, d objective.Due) error {
	name := lane.Objective(d.ID)
	var operate *lane.Info
	var orphans *[]run.Execution
	var found *[]objective.Objective
	request := lane.Request{Workspace: b.tick.Workspace, Lane: name, Holder: b.hold.Holder, Under: b.hold}
	err := b.Lanes.DoAfter(ctx, request, lane.Wait{}, func(batch *db.Batch) {
		operate = b.Lanes.PeekIn(batch, lane.Operate)
		orphans = b.Runs.Unfinished(batch, name)
		found = b.Objectives.GetIn(batch, d.ID)
	}, func(ctx context.Context, hold *lane.Hold) error {
		if operate.Held() {
			p.Left++
			b.halted = "a person works in operate"
			b.park(b.halted)
			return nil
		}
		piece := piece{beat: b, phase: p, kind: k, hold: hold, objective: objective.Objective{ID: d.ID}}
		if len(*found) > 0 {
			piece.objective = (*found)[0]
		}
		return piece.do(ctx, *orphans)
	})
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		p.Left++ // another surface is at it
		return nil
	}
	if errors.Is(err, lane.ErrLost) {
		return b.lost(ctx, p, d, err)
	}
	return err
}

// lost leaves a piece of work whose hold was lost, unless the beat's own is over
// too.
func (b *beat) lost(ctx context.Context, p *Phase, d objective.Due, cause error) error {
	last, cancel := lastWrites(ctx)
	defer cancel()
	if err := b.Lanes.InHold(last, b.hold, func(context.Context, lane.Tx) error { return nil }); err != nil {
		return err
	}
	b.Slog.WarnContext(ctx, "objective left: its lane is lost", "phase", p.Name, "objective", d.Title, "error", cause)
	p.Left++
	b.park("the lane of an objective was lost")
	return nil
}

// encode is the JSON of our own types, which always has one.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		raw, _ = json.Marshal(map[string]string{"error": fmt.Sprintf("could not be encoded: %v", err)})
	}
	return raw
}

// planning and advancing are the kinds of work there are.
var (
	planning  = kind{phase: "plan", task: "plan", prompt: planPrompt, skills: []string{"plan_objective", "query_activity"}}
	advancing = kind{phase: "advance", task: "advance", prompt: advancePrompt}
)
