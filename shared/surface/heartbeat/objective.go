package heartbeat

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed plan.md
var planPrompt string

//go:embed advance.md
var advancePrompt string

const (
	// maxTries is how often a plan, or a step of one, is tried before it is given up.
	maxTries = 3
	// maxAttempts is how often one execution is taken up again before it counts as
	// poison: something in it ends the process.
	maxAttempts = 5
	// maxParked is how often one execution may be left for a later beat, a day of
	// half hours: what needs more gets nowhere.
	maxParked = 48
	// maxPlans is how often an objective is planned anew before a person must look.
	maxPlans = 10
)

// objectiveWork is one kind of work on one objective whose lane is held.
type objectiveWork struct {
	*beat
	phase     *Phase
	kind      kind
	hold      *lane.Hold
	objective objective.Objective
	step      *objective.Step // of advancing
	exec      execution.Execution
}

// input is what an execution is about; it is stored, so that a resumed one goes
// on with the same.
type input struct {
	Task        string `json:"task"`
	Title       string `json:"title,omitempty"` // the objective's, for people
	ObjectiveID string `json:"objective_id"`
	PlanVersion int    `json:"plan_version,omitempty"`
	Step        int    `json:"step,omitempty"`
}

// do takes up what was begun on the objective, or begins, and works.
func (p *objectiveWork) do(ctx context.Context, open []execution.Execution) error {
	if p.objective.Status != objective.Active {
		return p.drop(ctx, open, "its objective is "+cmp.Or(string(p.objective.Status), "gone"))
	}
	fresh, err := p.choose(ctx, open)
	unreadable := errors.Is(err, execution.ErrUnreadable)
	if err != nil && !unreadable || !fresh && p.exec.ID == "" {
		return err
	}
	if exhausted, failed := p.exhausted(ctx, fresh, unreadable); failed != nil || exhausted {
		return failed
	}
	begin := p.resume
	if fresh {
		begin = p.start
	}
	if failed := p.Lanes.InHold(ctx, p.holds(), begin); failed != nil || unreadable {
		return cmp.Or(failed, err)
	}
	if err := fault.Point(ctx, "objective.begun", p.exec.ID); err != nil {
		return err
	}
	job := p.job()
	ctx = job.Under(ctx)
	p.Log.InfoContext(ctx, "work on objective", "phase", p.phase.Name, "objective", p.objective.Title, "step", p.stepTitle(), "attempt", p.exec.Attempt)
	out, err := p.Reason.Run(ctx, job)
	if err != nil {
		return err
	}
	return p.finish(ctx, job, out)
}

// choose decides between the execution that is open and a fresh one; neither where
// the objective was changed since the beat's first look, or the work is for the
// other phase. Advancing, which sees every objective and comes last, takes up
// either kind: a planning that was cut off when its plan was there already.
func (p *objectiveWork) choose(ctx context.Context, open []execution.Execution) (fresh bool, err error) {
	if len(open) > 0 {
		var in input
		if err := open[0].Asked(&in); err != nil {
			p.exec = open[0]
			return false, err
		}
		switch {
		case in.PlanVersion != 0 && in.PlanVersion != p.objective.PlanVersion:
			// What it was told of is no more: the numbers of its steps are others'.
			if err := p.drop(ctx, open, "its plan was replaced"); err != nil {
				return false, err
			}
		case in.Task == advancing.task && p.kind.task == planning.task:
			return false, nil
		default:
			p.adopt(open[0], in)
			return false, nil
		}
	}
	p.step = p.objective.Next()
	return (p.step == nil) == (p.kind.task == planning.task), nil
}

// adopt makes an open execution this piece's.
func (p *objectiveWork) adopt(e execution.Execution, in input) {
	if in.Task == planning.task {
		p.kind = planning
	}
	p.exec = e
	for i, st := range p.objective.Plan {
		if st.PlanVersion == in.PlanVersion && st.Number == in.Step {
			p.step = &p.objective.Plan[i]
		}
	}
}

// drop ends work that there is nothing left to do for.
func (p *objectiveWork) drop(ctx context.Context, open []execution.Execution, why string) error {
	if len(open) == 0 {
		return nil
	}
	status := execution.Cancelled
	if p.objective.Status == objective.Completed {
		status = execution.Completed
	}
	return p.Lanes.InHold(ctx, p.holds(), func(ctx context.Context, tx lane.Tx) error {
		for _, e := range open {
			p.Log.InfoContext(ctx, "work closed", "phase", p.phase.Name, "objective", p.objective.Title, "execution", e.ID, "reason", why)
			p.Activity.Record(ctx, tx.Later(), activity.Entry{
				Agent: activity.Operator, Surface: trace.Heartbeat, Skill: "heartbeat." + p.phase.Name, Status: activity.Success,
				Output: encode(map[string]any{"closed": e.ID, "reason": why}), Execution: e.ID, Attempt: p.beat.exec.Attempt,
			})
			if err := p.Runs.Leave(tx, e, status, encode(map[string]string{"reason": why}), ""); err != nil {
				return err
			}
		}
		return nil
	})
}

// exhausted gives up what has been tried too often, so that it can't eat every
// beat: a step fails and the objective is planned anew, at last it is paused for
// a person.
func (p *objectiveWork) exhausted(ctx context.Context, fresh, unreadable bool) (bool, error) {
	var why string
	switch {
	case unreadable && p.exec.Attempt >= maxAttempts:
		why = fmt.Sprintf("it could not be read %d times", p.exec.Attempt)
	case p.exec.Status == execution.Running && p.exec.Attempt >= maxAttempts: // a parked one came out alive
		why = fmt.Sprintf("it was cut off in attempt %d", p.exec.Attempt)
	case p.exec.Attempt >= maxParked:
		why = fmt.Sprintf("it was left for later %d times", p.exec.Attempt)
	case fresh && p.step != nil && p.step.Attempts >= maxTries, fresh && p.step == nil && p.objective.PlanAttempts >= maxTries:
		why = fmt.Sprintf("it was tried %d times", maxTries)
	case fresh && p.step == nil && p.objective.PlanVersion >= maxPlans:
		why = fmt.Sprintf("it was planned %d times", maxPlans)
	default:
		return false, nil
	}
	p.phase.Failed++
	p.Log.WarnContext(ctx, "work given up", "phase", p.phase.Name, "objective", p.objective.Title, "step", p.stepTitle(), "reason", why)
	return true, p.Lanes.InHold(ctx, p.holds(), func(ctx context.Context, tx lane.Tx) error {
		if p.exec.ID != "" {
			if err := p.Runs.Leave(tx, p.exec, execution.Failed, nil, "given up: "+why); err != nil {
				return err
			}
		}
		p.Activity.Record(ctx, tx.Later(), activity.Entry{
			Agent: activity.Operator, Surface: trace.Heartbeat, Skill: "heartbeat." + p.phase.Name, Status: activity.Error,
			Input: encode(p.input()), Error: "given up: " + why, Execution: p.exec.ID, Attempt: p.beat.exec.Attempt,
		})
		switch {
		case p.kind.task == planning.task && p.objective.Next() != nil: // the plan is there
		case p.kind.task == planning.task:
			return p.Objectives.Pause(ctx, tx, p.objective.ID, "no plan came about: "+why)
		case p.step != nil && p.step.Status == objective.Pending:
			return p.Objectives.EndStep(ctx, tx, p.objective.ID, p.step.Number, objective.Failed, "given up: "+why)
		}
		return nil
	})
}

// start begins an execution; the try is counted before the work.
func (p *objectiveWork) start(_ context.Context, tx lane.Tx) error {
	p.exec = execution.Execution{
		ID: p.IDs(), Agent: activity.Operator, Surface: trace.Heartbeat, Trace: p.beat.exec.Trace, Parent: p.beat.exec.ID,
		Subject: p.hold.Lane, Attempt: 1, Input: encode(p.input()),
	}
	if err := p.Runs.Start(tx, p.exec); err != nil {
		return err
	}
	if p.step == nil {
		return p.Objectives.CountPlanning(tx, p.objective.ID)
	}
	return p.Objectives.CountStep(tx, p.objective.ID, *p.step, p.exec.ID)
}

func (p *objectiveWork) resume(ctx context.Context, tx lane.Tx) error {
	return p.Runs.Resume(ctx, tx, &p.exec)
}

// holds are the objective's and the beat's: who has lost either writes nothing.
func (p *objectiveWork) holds() lane.Holds { return lane.Holds{p.hold, p.beat.hold} }

func (p *objectiveWork) input() input {
	in := input{Task: p.kind.task, Title: p.objective.Title, ObjectiveID: p.objective.ID}
	if p.step != nil {
		in.PlanVersion, in.Step = p.step.PlanVersion, p.step.Number
	}
	return in
}

func (p *objectiveWork) job() reason.Job {
	skills := p.skills
	if p.kind.skills != nil {
		skills = skills.Only(p.kind.skills...)
	}
	var trust execution.Trust // the operator's, unless
	if p.objective.Untrusted {
		trust = execution.Untrusted
	}
	return reason.Job{
		Execution: p.exec, Hold: p.hold, Trust: trust, Outer: []*lane.Hold{p.beat.hold}, Agent: activity.Operator, System: p.kind.prompt,
		Messages:     []llm.Message{{Role: llm.RoleUser, Text: string(encode(p.brief()))}},
		Skills:       skills,
		MaxTokens:    answerTokens,
		Window:       p.Window,
		Stops:        append(p.stops(p.hold), reason.MaxSteps(p.settings.StepsPerRun)),
		Retries:      p.settings.ToolRetries,
		SkillTimeout: time.Duration(p.settings.SkillTimeout) * time.Second,
		Day:          p.settings.DayTokens,
		DayMicroUSD:  p.settings.DayMicroUSD,
		Priced:       p.settings.BeatMicroUSD > 0,
		Spent:        p.spender(p.phase),
	}
}

// answerTokens bounds one answer of the model.
const answerTokens = 4096

// spender counts what a run of a phase uses.
func (b *beat) spender(p *Phase) func(llm.Usage) {
	return func(u llm.Usage) {
		b.caps.spend(u)
		p.ModelCalls++
		p.Tokens += int64(u.TotalTokens())
		p.microUSD += u.MicroUSD
		p.CostUSD = float64(p.microUSD) / 1e6
	}
}

// finish ends the execution and gives the objective's lane back in one
// transaction, with time of its own.
func (p *objectiveWork) finish(ctx context.Context, job reason.Job, out reason.Outcome) error {
	if err := fault.Point(ctx, "objective.ending", p.exec.ID); err != nil {
		return err
	}
	p.count(p.phase, out)
	if out.Status == execution.Completed && p.kind.task == advancing.task {
		p.did(p.objective.Title+": "+p.stepTitle(), out.Answer, out.Trust)
	}
	p.Log.InfoContext(ctx, "work ended", "phase", p.phase.Name, "objective", p.objective.Title, "step", p.stepTitle(),
		"status", out.Status, "reason", out.Reason, "answer", out.Answer)
	last, cancel := lastWrites(ctx)
	defer cancel()
	return p.Lanes.InHold(last, p.holds(), func(ctx context.Context, tx lane.Tx) error {
		if err := p.Reason.Close(ctx, tx, job, out); err != nil {
			return err
		}
		if len(out.Uncertain) > 0 && out.Status != execution.Parked {
			// The step would be tried again, and with it what may have had its effect.
			why := "it is not known whether a call had its effect: " + strings.Join(out.Uncertain, ", ") + ". Look, and resume the objective"
			if err := p.Objectives.Halt(tx, p.objective.ID, why); err != nil {
				return err
			}
		}
		tx.Release(p.Lanes, p.hold)
		return nil
	})
}

func (p *objectiveWork) stepTitle() string {
	if p.step == nil {
		return ""
	}
	return p.step.Title
}
