package heartbeat

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

//go:embed plan.md
var planPrompt string

//go:embed advance.md
var advancePrompt string

const (
	// maxTries is the number of attempts at a plan, or at a step of one.
	maxTries = 3
	// maxPlans is how often an objective is planned before it is paused for a person, who can resume it for as many
	// plans again.
	maxPlans = 10
)

// objectiveWork is the unit of one kind of work on one objective.
type objectiveWork struct {
	*beat
	phase     *Phase
	kind      kind
	name      lane.Name
	operate   *lane.Info
	found     *[]objective.Objective
	objective objective.Objective
	step      *objective.Step // nil: planning
	choose    func(context.Context, *work.Start) error
	dropped   []execution.Execution
	dropWhy   string
	gaveUp    bool // given up before an execution was begun
	why       string
}

// work does one piece of work on one objective, under the objective's lane.
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

// input is the input of an execution. It is stored, so that a resumed execution continues with the
// same.
type input struct {
	Task        string `json:"task"`
	Title       string `json:"title,omitempty"` // title of the objective, for people
	ObjectiveID string `json:"objective_id"`
	PlanVersion int    `json:"plan_version,omitempty"`
	Step        int    `json:"step,omitempty"`
}

func (p *objectiveWork) look(b *db.Batch) {
	p.operate = p.Lanes.PeekIn(b, lane.Operate)
	p.found = p.Objectives.GetIn(b, p.objective.ID)
}

// enter decides between resuming the open execution and beginning a new one. It returns
// [work.ErrNothing] if a person's turn is in the way, if the objective has changed since the
// snapshot, or if the work belongs to the other phase. The advance phase sees every objective and
// comes last, so it resumes both kinds of work: a planning may be interrupted after its plan was
// stored.
func (p *objectiveWork) enter(ctx context.Context, e *work.Entry) error {
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
			// The step that it was working on is gone; its number now names a step of another plan.
			p.dropWhy = "its plan was replaced"
		case in.Task == advancing.task && p.kind.task == planning.task:
			return work.ErrNothing
		case p.muted(ctx) != "": // it is loose, but its objective is active
			p.phase.Left++
			p.park(p.muted(ctx))
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

// adopt makes this unit resume an open execution.
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

// Over returns why a call of an objective is not made although it was approved: the objective was deleted, or a person
// completed it while a run of it waited. It is empty for any other call: a run may complete its objective with a call
// that still waits.
func (h *Heartbeat) Over(ctx context.Context, ws db.Workspace, of approval.Approval) (string, error) {
	id, ok := lane.ObjectiveOf(of.Subject)
	if !ok {
		return "", nil
	}
	var b db.Batch
	found, open := h.Objectives.GetIn(&b, id), h.Runs.Unfinished(&b, of.Subject)
	if err := h.DB.Read(ctx, ws, &b); err != nil {
		return "", fmt.Errorf("read the objective of approval %s: %w", of.ID, err)
	}
	switch {
	case len(*found) == 0:
		return "its objective is gone", nil
	case (*found)[0].Status == objective.Completed && slices.ContainsFunc(*open, waits):
		return "its objective is completed", nil
	}
	return "", nil
}

func waits(e execution.Execution) bool { return e.Status == execution.Waiting }

// drop ends open executions whose objective or plan is gone. What waits for people is rejected if one of them has
// completed the objective.
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
	if p.objective.Status == objective.Completed && slices.ContainsFunc(s.Open, waits) {
		return p.Approvals.RejectFor(ctx, s.Tx, p.name, "heartbeat", p.dropWhy)
	}
	return nil
}

// begin begins an execution and counts the attempt before the work. It gives up work that was tried
// too often.
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
	case p.step == nil && p.objective.Plans >= maxPlans:
		p.why = fmt.Sprintf("it was planned %d times", maxPlans)
	default:
		return false
	}
	return true
}

// giveUp ends work that was tried too often, so that it cannot use up every beat. A failed step
// makes the objective be planned anew. An objective that cannot be planned is paused for a person.
func (p *objectiveWork) giveUp(ctx context.Context, tx lane.Tx, e execution.Execution) error {
	p.givenUp(ctx, tx, p.phase, p.input(), e, p.why)
	switch {
	case p.kind.task == planning.task && p.objective.Next() != nil: // the plan is stored already
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

// act works until a person has to decide on a call, or nothing is left to do. A later beat tells the run of the decision.
func (p *objectiveWork) act(ctx context.Context, job reason.Job) (reason.Outcome, error) {
	p.Log.InfoContext(ctx, "work on objective", "phase", p.phase.Name, "objective", p.objective.Title, "step",
		p.stepTitle(), "attempt", job.Execution.Attempt)
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
	if p.objective.Untrusted { // otherwise its text is the operator's
		job.Trust = execution.Untrusted
	}
	job.Messages = []llm.Message{{Role: llm.RoleUser, Text: string(encode(p.brief()))}}
	job.TellsDecisions = true
	out, err := (&turn.Runner{Parts: p.Parts}).Through(ctx, p.bounded(p.phase, job))
	if err != nil || out.Status != execution.Waiting || out.Halted {
		return out, err
	}
	stands, err := p.stands(ctx)
	if err == nil && !stands { // the plan goes on, whatever becomes of the call
		out.Status = execution.Completed
	}
	return out, err
}

// stands reports whether what this unit works on is still to be done.
func (p *objectiveWork) stands(ctx context.Context) (bool, error) {
	o, err := p.Objectives.Get(ctx, p.tick.Workspace, p.objective.ID)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil || o.Status != objective.Active {
		return false, err
	}
	next := o.Next()
	if next == nil || p.step == nil {
		return next == p.step, nil
	}
	return next.PlanVersion == p.step.PlanVersion && next.Number == p.step.Number, nil
}

// answerTokens limits one answer of the model.
const answerTokens = 4096

// spender returns the function that counts the usage of a run in its phase and in the caps.
func (b *beat) spender(p *Phase) func(llm.Usage) {
	return func(u llm.Usage) {
		b.caps.spend(u)
		p.ModelCalls++
		p.Tokens += int64(u.TotalTokens())
		p.microUSD += u.MicroUSD
		p.CostUSD = float64(p.microUSD) / 1e6
	}
}

// end gives up a poison execution, and halts the objective if the outcome of a call is unknown.
func (p *objectiveWork) end(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
	if out.Poison {
		p.why = out.Reason
		return p.giveUp(ctx, tx, out.Execution)
	}
	if len(out.Uncertain) > 0 && out.Status != execution.Parked {
		// A retry of the step would repeat a call that may have had its effect.
		why := "it is not known whether a call had its effect: " + strings.Join(out.Uncertain, ", ") + ". Look, and resume the objective"
		return p.Objectives.Halt(tx, p.objective.ID, why)
	}
	return nil
}

// ended counts and logs the outcome after it is stored.
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
		p.Log.InfoContext(reason.Job{Execution: out.Execution}.Under(ctx), "work ended",
			append(about, "status", out.Status, "reason", out.Reason, "answer", out.Answer)...)
	}
}

func (p *objectiveWork) stepTitle() string {
	if p.step == nil {
		return ""
	}
	return p.step.Title
}
