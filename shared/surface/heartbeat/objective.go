package heartbeat

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

//go:embed plan.md
var planPrompt string

//go:embed advance.md
var advancePrompt string

const (
	// maxTries is how often a plan, or a step of one, is tried before it is given up.
	maxTries = 3
	// maxPlans is how often an objective is planned anew before a person must look.
	maxPlans = 10
)

// objectiveWork is one kind of work on one objective, as a unit.
type objectiveWork struct {
	*beat
	phase     *Phase
	kind      kind
	name      lane.Name
	operate   *lane.Info
	found     *[]objective.Objective
	objective objective.Objective
	step      *objective.Step // of advancing
	choose    func(context.Context, *work.Start) error
	dropped   []execution.Execution
	dropWhy   string
	gaveUp    bool // before it was begun
	why       string
}

// work does one piece of work on one objective under its lane.
func (b *beat) work(ctx context.Context, p *Phase, k kind, d objective.Due) error {
	w := &objectiveWork{beat: b, phase: p, kind: k, name: lane.Objective(d.ID), objective: objective.Objective{ID: d.ID}}
	out, err := b.do(ctx, p, d.Title, work.Unit{
		Name: "objective", Lane: lane.Request{Lane: w.name}, Look: w.look, Enter: w.enter,
		Begin: func(ctx context.Context, s *work.Start) error { return w.choose(ctx, s) },
		Act:   w.act, End: w.end,
	})
	if err == nil {
		w.ended(ctx, out)
	}
	return err
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

func (p *objectiveWork) look(b *db.Batch) {
	p.operate = p.Lanes.PeekIn(b, lane.Operate)
	p.found = p.Objectives.GetIn(b, p.objective.ID)
}

// enter decides between the execution that is open and a fresh one. There is nothing to do
// where a person is in the way, the objective was changed since the beat's first look, or
// the work is for the other phase. Advancing, which sees every objective and comes last,
// takes up either kind: a planning that was cut off when its plan was there already.
func (p *objectiveWork) enter(_ context.Context, e *work.Entry) error {
	if p.inTheWay(p.operate) {
		p.phase.Left++
		p.halted = atWork
		p.park(p.halted)
		return work.ErrNothing
	}
	if len(*p.found) > 0 {
		p.objective = (*p.found)[0]
	}
	p.step = p.objective.Next()
	due := (p.step == nil) == (p.kind.task == planning.task)
	if p.objective.Status != objective.Active {
		p.dropWhy, due = "its objective is "+cmp.Or(string(p.objective.Status), "gone"), false
	} else if len(e.Open) > 0 {
		var in input
		err := e.Open[0].Asked(&in)
		switch {
		case err != nil:
			p.choose = func(context.Context, *work.Start) error { return err }
			return nil //nolint:nilerr // Begin returns it, so that the attempt is counted
		case in.PlanVersion != 0 && in.PlanVersion != p.objective.PlanVersion:
			// What it was told of is no more: the numbers of its steps are others'.
			p.dropWhy = "its plan was replaced"
		case in.Task == advancing.task && p.kind.task == planning.task:
			return work.ErrNothing
		default:
			p.adopt(in)
			p.choose = func(ctx context.Context, s *work.Start) error { return s.Resume(ctx, s.Open[0]) }
			return nil
		}
	}
	if len(e.Open) == 0 && !due {
		return work.ErrNothing
	}
	p.choose = func(ctx context.Context, s *work.Start) error {
		if err := p.drop(ctx, s); err != nil || !due {
			return err
		}
		return p.begin(ctx, s)
	}
	return nil
}

// adopt makes an open execution this piece's.
func (p *objectiveWork) adopt(in input) {
	if in.Task == planning.task {
		p.kind = planning
	}
	p.step = nil
	for i, st := range p.objective.Plan {
		if st.PlanVersion == in.PlanVersion && st.Number == in.Step {
			p.step = &p.objective.Plan[i]
		}
	}
}

// drop ends work that there is nothing left to do for.
func (p *objectiveWork) drop(ctx context.Context, s *work.Start) error {
	status := execution.Cancelled
	if p.objective.Status == objective.Completed {
		status = execution.Completed
	}
	for _, e := range s.Open {
		p.Activity.Record(ctx, s.Later(), activity.Entry{
			Agent: activity.Operator, Surface: trace.Heartbeat, Skill: "heartbeat." + p.phase.Name, Status: activity.Success,
			Output: encode(map[string]any{"closed": e.ID, "reason": p.dropWhy}), Execution: e.ID, Attempt: e.Attempt,
		})
		if err := s.Close(e, status, p.dropWhy); err != nil {
			return err
		}
	}
	p.dropped = s.Open
	return nil
}

// begin begins an execution; the try is counted before the work. What has been tried too
// often is given up.
func (p *objectiveWork) begin(ctx context.Context, s *work.Start) error {
	if p.tooOften() {
		p.gaveUp = true
		return p.giveUp(ctx, s.Tx, execution.Execution{})
	}
	e := p.thinking(p.piece(p.name, p.input()))
	if err := s.New(ctx, e); err != nil {
		return err
	}
	if p.step == nil {
		return p.Objectives.CountPlanning(s.Tx, p.objective.ID)
	}
	return p.Objectives.CountStep(s.Tx, p.objective.ID, *p.step, e.ID)
}

func (p *objectiveWork) tooOften() bool {
	switch {
	case p.step != nil && p.step.Attempts >= maxTries, p.step == nil && p.objective.PlanAttempts >= maxTries:
		p.why = fmt.Sprintf("it was tried %d times", maxTries)
	case p.step == nil && p.objective.PlanVersion >= maxPlans:
		p.why = fmt.Sprintf("it was planned %d times", maxPlans)
	default:
		return false
	}
	return true
}

// giveUp ends what has been tried too often, so that it can't eat every beat: a step
// fails and the objective is planned anew, at last it is paused for a person.
func (p *objectiveWork) giveUp(ctx context.Context, tx lane.Tx, e execution.Execution) error {
	p.givenUp(ctx, tx, p.phase, p.input(), e, p.why)
	switch {
	case p.kind.task == planning.task && p.objective.Next() != nil: // the plan is there
	case p.kind.task == planning.task:
		return p.Objectives.Pause(ctx, tx, p.objective.ID, "no plan came about: "+p.why)
	case p.step != nil && p.step.Status == objective.Pending:
		return p.Objectives.EndStep(ctx, tx, p.objective.ID, p.step.Number, objective.Failed, "given up: "+p.why)
	}
	return nil
}

func (p *objectiveWork) input() input {
	in := input{Task: p.kind.task, Title: p.objective.Title, ObjectiveID: p.objective.ID}
	if p.step != nil {
		in.PlanVersion, in.Step = p.step.PlanVersion, p.step.Number
	}
	return in
}

func (p *objectiveWork) act(ctx context.Context, job reason.Job) (reason.Outcome, error) {
	p.Log.InfoContext(ctx, "work on objective", "phase", p.phase.Name, "objective", p.objective.Title, "step", p.stepTitle(), "attempt", job.Execution.Attempt)
	job, words, err := p.spoken(ctx, job, p.kind.prompt)
	if err != nil {
		return reason.Outcome{}, err
	}
	job.Skills = p.skills
	switch {
	case p.kind.skills != nil:
		job.Skills = p.skills.Only(p.kind.skills...)
	case words.Skills != nil:
		job.Skills = p.skills.Only(words.Skills...)
	}
	if p.objective.Untrusted { // else it is in the operator's words
		job.Trust = execution.Untrusted
	}
	job.Messages = []llm.Message{{Role: llm.RoleUser, Text: string(encode(p.brief()))}}
	return p.Reason.Run(ctx, p.bounded(p.phase, job))
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

// end gives up what is poison, and halts the objective where nobody knows what came of a
// call.
func (p *objectiveWork) end(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
	if out.Poison {
		p.why = out.Reason
		return p.giveUp(ctx, tx, out.Execution)
	}
	if len(out.Uncertain) > 0 && out.Status != execution.Parked {
		// The step would be tried again, and with it what may have had its effect.
		why := "it is not known whether a call had its effect: " + strings.Join(out.Uncertain, ", ") + ". Look, and resume the objective"
		return p.Objectives.Halt(tx, p.objective.ID, why)
	}
	return nil
}

// ended counts and logs what came of the work, once that is written.
func (p *objectiveWork) ended(ctx context.Context, out work.Outcome) {
	about := []any{"phase", p.phase.Name, "objective", p.objective.Title}
	for _, e := range p.dropped {
		p.Log.InfoContext(ctx, "work closed", append(about, "execution", e.ID, "reason", p.dropWhy)...)
	}
	about = append(about, "step", p.stepTitle())
	switch {
	case p.gaveUp || out.Poison:
		p.phase.Failed++
		p.Log.WarnContext(ctx, "work given up", append(about, "reason", p.why)...)
	case out.Execution.ID != "":
		p.count(p.phase, out.Outcome)
		if out.Status == execution.Completed && p.kind.task == advancing.task {
			p.did(p.objective.Title+": "+p.stepTitle(), out.Answer, out.Trust)
		}
		p.Log.InfoContext(reason.Job{Execution: out.Execution}.Under(ctx), "work ended", append(about, "status", out.Status, "reason", out.Reason, "answer", out.Answer)...)
	}
}

func (p *objectiveWork) stepTitle() string {
	if p.step == nil {
		return ""
	}
	return p.step.Title
}
