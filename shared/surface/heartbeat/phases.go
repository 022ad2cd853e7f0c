package heartbeat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// phase is one of the six phases of a beat. A phase may use the beat's time and tokens up to its
// share, counted from the beginning of the beat. The time and tokens that a phase leaves unused are available to the
// next.
type phase struct {
	name string
	// until is the share of the beat's time and tokens that may be used by the end of this phase.
	until float64
	// slowest is the severest pace at which the phase runs.
	slowest budget.Pace
	run     func(*beat, context.Context, *Phase) error
}

// phases returns the six phases in their order.
func phases() []phase {
	return []phase{
		{"heal", 0.1, budget.Stop, (*beat).heal},
		{planning.phase, 0.35, budget.Continue, (*beat).plan},
		{"automate", 0.5, budget.Throttle, (*beat).automate},
		{advancing.phase, 0.85, budget.Stop, (*beat).advance},
		{reflecting.name, 0.95, budget.Continue, (*beat).reflect},
		{remembering.name, 1, budget.Continue, (*beat).remember},
	}
}

// pace returns how fast the beat works: as the budgets of people say, or, by hand, as ever.
func (b *beat) pace() budget.Pace {
	if b.tick.Full {
		return budget.Continue
	}
	return b.snapshot.pace()
}

// phases runs the six phases and logs each when it ends. A throttled beat only goes on with what was
// begun; a stopped one heals, and advances what is critical.
func (b *beat) phases(ctx context.Context) error {
	b.working = time.Now() // the deadline uses the machine's clock
	pace := b.pace()
	if pace != budget.Continue {
		b.report.Pace = pace
		b.Log.WarnContext(ctx, "beat throttled", "pace", pace)
	}
	for _, ph := range phases() {
		if !pace.Allows(ph.slowest) {
			continue
		}
		b.until = ph.until
		if err := b.phase(ctx, ph); err != nil {
			return err
		}
	}
	return nil
}

// phase runs one phase and records what it did. The line of a phase that found no work is written
// together with the next one.
func (b *beat) phase(ctx context.Context, ph phase) error {
	p := Phase{Name: ph.name}
	begun := b.Clock()
	if err := ph.run(b, ctx, &p); err != nil {
		return err
	}
	p.DurationMS = b.Clock().Sub(begun).Milliseconds()
	b.report.Phases = append(b.report.Phases, p)
	b.report.Tokens += p.Tokens
	b.report.CostUSD = float64(b.caps.money) / 1e6
	b.report.Left += p.Left
	b.unlogged = append(b.unlogged, p)
	if p.Considered == 0 {
		return nil
	}
	b.Log.InfoContext(ctx, "phase ended", "phase", p.Name, "considered", p.Considered, "done", p.Done, "failed", p.Failed,
		"left", p.Left, "tokens", p.Tokens, "duration_ms", p.DurationMS)
	if p.Name == reflecting.name {
		// The line of a reflection is written after those of the memories that are saved from it.
		// Otherwise these would count as new activity and cause another reflection.
		return nil
	}
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	err := b.Lanes.InHold(last, b.hold, func(ctx context.Context, tx lane.Tx) error {
		b.logPhases(ctx, tx)
		return nil
	})
	b.unlogged = nil
	return err
}

// logPhases queues the lines of the phases that have none yet.
func (b *beat) logPhases(ctx context.Context, tx lane.Tx) {
	for _, p := range b.unlogged {
		b.Activity.Record(ctx, tx.Later(), activity.Entry{
			Agent: activity.Operator, Surface: trace.Heartbeat, Skill: "heartbeat." + p.Name, Status: activity.Success,
			Output: encode(p.stored()), Duration: time.Duration(p.DurationMS) * time.Millisecond, Attempt: b.exec.Attempt,
		})
	}
}

// plan makes a plan for each objective that has none.
func (b *beat) plan(ctx context.Context, p *Phase) error {
	var unplanned []objective.Due
	for _, d := range *b.snapshot.due {
		if d.NeedsPlan() {
			unplanned = append(unplanned, d)
		}
	}
	return b.pursue(ctx, p, planning, nil, unplanned)
}

// advance does the next step of each objective, and closes open executions of loose ones.
func (b *beat) advance(ctx context.Context, p *Phase) error {
	pace := b.pace()
	due := slices.DeleteFunc(slices.Clone(*b.snapshot.due), func(d objective.Due) bool {
		return pace == budget.Stop &&
			!pace.Admits(d.Priority)
	})
	p.Left += len(*b.snapshot.due) - len(due)
	return b.pursue(ctx, p, advancing, b.snapshot.loose(), due)
}

// kind is one of the two kinds of work on an objective.
type kind struct {
	phase  string // name of the phase
	task   string // the task in the input
	prompt string
	skills []string // the skills it may use; nil: all internal ones
}

// pursue does one kind of work on each objective under its lane, the most urgent first, until a
// stop condition holds. Before, it closes the open executions of loose objectives, for which no model is asked.
func (b *beat) pursue(ctx context.Context, p *Phase, k kind, loose, due []objective.Due) error {
	all := slices.Concat(loose, due)
	p.Considered = len(all)
	for i, d := range all {
		why := b.halted
		if i >= len(loose) {
			why = b.muted(ctx)
		}
		if b.mustStop(ctx, p, len(all)-i, why) {
			break
		}
		if err := b.leave(ctx, p, d.Title, b.work(ctx, p, k, d)); err != nil {
			return err
		}
	}
	return nil
}

// leave returns the error if it must end the beat. It returns nil for work that was only
// interrupted or that this build can't read, and leaves that work for the next beat.
func (b *beat) leave(ctx context.Context, p *Phase, what string, err error) error {
	if errors.Is(err, execution.ErrUnreadable) || errors.Is(err, automation.ErrUnreadable) {
		b.Log.ErrorContext(ctx, "work left: it can't be read", "phase", p.Name, "objective", what, "error", err)
		p.Left++
		return nil
	}
	if err == nil || ctx.Err() == nil || errors.Is(err, lane.ErrLost) {
		return err
	}
	b.Log.WarnContext(ctx, "work left: interrupted", "phase", p.Name, "objective", what, "error", err)
	p.Left++
	b.park("the time was up")
	return nil
}

// muted returns why no further work that asks a model may begin; empty: it may.
func (b *beat) muted(ctx context.Context) string {
	if !b.modelChecked {
		b.modelChecked, b.modelOff = true, b.Reason.Paused(ctx, b.tick.Workspace)
	}
	return cmp.Or(b.halted, b.modelOff, b.caps.over(b.until))
}

// mustStop reports whether no further piece of work may begin. It then counts the left pieces and
// parks the beat. A why that is not empty is a known reason to stop.
func (b *beat) mustStop(ctx context.Context, p *Phase, left int, why string) bool {
	for _, stop := range b.stops() {
		if why != "" {
			break
		}
		if s := stop(ctx, reason.Progress{}); s != nil {
			why = s.Reason
		}
	}
	if why == "" {
		return false
	}
	p.Left += left
	b.park(why)
	return true
}

// stops returns the stop conditions of any work in this beat. The holds are those that the work holds
// in addition to the beat's.
func (b *beat) stops(holds ...*lane.Hold) []reason.Stop {
	return []reason.Stop{reason.Deadline(), reason.Wanted(holds...), b.wanted, b.share}
}

// wanted parks the beat if somebody waits for its lane. A beat that a person asked for goes on while another one waits.
func (b *beat) wanted(ctx context.Context, p reason.Progress) *reason.Stopped {
	if b.tick.byHand() && strings.HasPrefix(b.hold.WantedBy(), function+"/") {
		return nil
	}
	return reason.Wanted(b.hold)(ctx, p)
}

// capped stops a run when its phase has used its share of the beat's caps. They limit what is asked of models.
func (b *beat) capped(context.Context, reason.Progress) *reason.Stopped {
	if why := b.caps.over(b.until); why != "" {
		return &reason.Stopped{Status: execution.Parked, Reason: why}
	}
	return nil
}

// share stops work when its phase has used its share of the beat's time.
func (b *beat) share(ctx context.Context, _ reason.Progress) *reason.Stopped {
	deadline, ok := ctx.Deadline()
	if ok && time.Since(b.working) > time.Duration(b.until*float64(deadline.Sub(b.working))) {
		return &reason.Stopped{Status: execution.Parked, Reason: "the phase's share of the beat's time is used up"}
	}
	return nil
}

func (b *beat) park(why string) {
	b.report.Outcome, b.report.Reason = Parked, why
}

// do runs a unit of work under the beat's hold. Work whose lane is held by another or was lost is
// left for the next beat.
func (b *beat) do(ctx context.Context, p *Phase, what string, u work.Unit) (work.Outcome, error) {
	u.Lane.Workspace, u.Lane.Holder, u.Lane.Under = b.tick.Workspace, b.hold.Holder, b.hold
	out, err := b.Worker.Do(ctx, u)
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		p.Left++
		return work.Outcome{}, nil
	}
	if errors.Is(err, lane.ErrLost) {
		return work.Outcome{}, b.lost(ctx, p, what, err)
	}
	return out, err
}

// givenUp adds the line of the activity log which says that a piece of work is not tried again.
func (b *beat) givenUp(ctx context.Context, tx lane.Tx, p *Phase, input any, e execution.Execution, why string) {
	b.Activity.Record(ctx, tx.Later(), activity.Entry{
		Agent: activity.Operator, Surface: trace.Heartbeat, Skill: "heartbeat." + p.Name, Status: activity.Error,
		Input: encode(input), Error: "given up: " + why, Execution: e.ID, Attempt: max(1, e.Attempt),
	})
}

// lost leaves a piece of work whose hold was lost for the next beat. If the beat's own hold is lost
// too, it returns [lane.ErrLost].
func (b *beat) lost(ctx context.Context, p *Phase, what string, cause error) error {
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	if err := b.Lanes.InHold(last, b.hold, func(context.Context, lane.Tx) error { return nil }); err != nil {
		return err
	}
	b.Log.WarnContext(ctx, "work left: its lane is lost", "phase", p.Name, "objective", what, "error", cause)
	p.Left++
	b.park("the lane of a piece of work was lost")
	return nil
}

// encode returns the JSON of our own types, which can always be encoded.
func encode(v any) json.RawMessage { return json.RawMessage(db.Encode(v)) }

// planning and advancing are the two kinds of work.
var (
	planning  = kind{phase: "plan", task: "plan", prompt: planPrompt, skills: []string{"plan_objective", "query_activity"}}
	advancing = kind{phase: "advance", task: "advance", prompt: advancePrompt}
)
