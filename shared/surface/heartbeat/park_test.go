package heartbeat_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

func TestCapsParkTheBeat(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for settings, c := range map[string]struct {
			calls  int
			reason string
		}{
			`{"beat_model_calls": 3}`:                    {3, "the beat's model calls are used up"},
			`{"beat_tokens": 31}`:                        {2, "the phase's share of the beat's tokens is used up"},
			`{"beat_tokens": 36}`:                        {3, "the beat's tokens are used up"},
			`{"beat_tokens": 30}`:                        {2, "the beat's tokens are used up"},
			`{"beat_model_calls": 0}`:                    {0, "the beat's model calls are used up"},
			`{"beat_model_calls": 1, "beat_tokens": 15}`: {1, "the beat's model calls are used up"},
		} {
			calls := 0
			w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
				calls++
				return obedient(ctx, tk)
			}))
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.set(t, settings)
			var objectives []string
			for i := range 3 {
				objectives = append(objectives, w.plan(t, w.addObjective(t, fmt.Sprint(i), 9-i), "one", "two"))
			}
			r := w.beat(t, slot(1))
			if calls != c.calls || r.Outcome != heartbeat.Parked || r.Reason != c.reason || r.Left != 3-c.calls/2 {
				t.Errorf("%s: after %d calls it is %+v", settings, calls, r)
			}
			w.countedOnce(t, r)
			w.mustBeFree(t)
			beat := w.the(t, lane.Heartbeat)
			if beat.Status != execution.Parked {
				t.Errorf("%s: the execution is %+v", settings, beat)
			}
			w.set(t, `{}`)
			if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed {
				t.Errorf("%s: the next is %+v", settings, r)
			}
			if beats := w.ofSubject(t, lane.Heartbeat); len(beats) != 2 || beats[0].Status != execution.Completed {
				t.Errorf("%s: the beats are %+v", settings, beats)
			}
			for _, id := range objectives {
				if o := w.objective(t, id); o.Plan[0].Status != objective.Done || o.Plan[0].Attempts != 1 {
					t.Errorf("%s: a plan is %+v", settings, o.Plan)
				}
			}
		}
	})
}

// invocation is the context of an invocation that ends when the test says so. Its deadline is an
// hour away.
type invocation struct {
	context.Context
	deadline time.Time
	over     chan struct{}
}

func newInvocation(t testing.TB) *invocation {
	return &invocation{t.Context(), time.Now().Add(time.Hour), make(chan struct{})}
}

func (i *invocation) Deadline() (time.Time, bool) { return i.deadline, true }
func (i *invocation) Done() <-chan struct{}       { return i.over }

func (i *invocation) Err() error {
	select {
	case <-i.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// end ends the invocation and waits until the work under ctx notices. That work must have an
// earlier deadline than the invocation, so that time is left for the last writes.
func (i *invocation) end(ctx context.Context, t testing.TB) {
	t.Helper()
	if d, ok := ctx.Deadline(); !ok || i.deadline.Sub(d) < 6*time.Minute-time.Second {
		t.Errorf("the work may go on until %s, the invocation until %s", d, i.deadline)
	}
	close(i.over)
	<-ctx.Done()
}

// parksIn runs a tick in an invocation that ends during the tick.
func (w *world) parksIn(t *testing.T, i *invocation) heartbeat.Report {
	t.Helper()
	tick := slot(1)
	tick.Workspace = w.Workspace
	r, err := w.Run(i, tick)
	if err != nil || i.Err() == nil || r.Outcome != heartbeat.Parked || r.Reason != "the time was up" {
		t.Errorf("it is %+v, %v (%v)", r, err, i.Err())
	}
	w.mustBeFree(t)
	return r
}

// TestABeatParksAtItsDeadlineAndTheNextGoesOn uses a model that hangs until the invocation is
// nearly over.
func TestABeatParksAtItsDeadlineAndTheNextGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		invoked := newInvocation(t)
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if tk.Answers == 1 {
				invoked.end(ctx, t)
				return nil, llm.Interrupted(ctx, "pilot")
			}
			return llmtest.Call("query_activity", `{}`), nil
		}))
		id := w.plan(t, w.addObjective(t, "x", 9), "one", "two")
		w.plan(t, w.addObjective(t, "y", 1), "one")
		r := w.parksIn(t, invoked)
		piece := w.the(t, lane.Objective(id))
		if r.Left != 2 || piece.Status != execution.Parked || len(w.journal(t, piece.ID)) != 3 {
			t.Errorf("%d are left, the piece is %+v", r.Left, piece)
		}
		if got := w.skills(t, r.TraceID); got != "query_activity heartbeat.heal heartbeat.plan heartbeat.automate heartbeat.advance heartbeat.reflect heartbeat.remember heartbeat" {
			t.Errorf("the story is %s", got)
		}
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Duplicate {
			t.Errorf("the same slot again is %+v", r)
		}
		asked := 0
		w.think(pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if asked++; asked == 1 && (tk.Objective.Title != "x" || tk.Answers != 1) {
				t.Errorf("the next beat begins with %s after %d answers", tk.Objective.Title, tk.Answers)
			}
			if tk.Objective.Title == "x" {
				tk.Answers--
			}
			return obedient(ctx, tk)
		}))
		r = w.beat(t, slot(2))
		after := w.the(t, lane.Objective(id))
		if r.Outcome != heartbeat.Completed || after.ID != piece.ID || after.Attempt != 2 || after.Status != execution.Completed || after.Trace != piece.Trace {
			t.Errorf("the next is %+v, the piece %+v", r, after)
		}
		if o := w.objective(t, id); o.Plan[0].Status != objective.Done || o.Plan[0].Attempts != 1 {
			t.Errorf("the plan is %+v", o.Plan)
		}
	})
}

// TestAHangingSkillDoesNotOutliveTheDeadline checks that the skill's call is rolled back and made
// again by the next beat.
func TestAHangingSkillDoesNotOutliveTheDeadline(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		invoked := newInvocation(t)
		hang, ran := mortal(0)
		inner := hang.Run
		hang.Run = func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
			value, err := inner(ctx, tx, c)
			if *ran == 1 {
				close(invoked.over)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return value, err
		}
		w := newWorld(t, e, pilot(risky), hang)
		id := w.plan(t, w.addObjective(t, "x", 9), "one", "two")
		w.parksIn(t, invoked)
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed || w.objective(t, id).Plan[0].Status != objective.Done || *ran != 2 {
			t.Errorf("the next is %+v after %d runs", r, *ran)
		}
	})
}

// TestTimeThatIsUpBetweenTwoPiecesParksTheBeat covers a deadline that neither a model nor a skill
// notices, because it passes before a piece of work begins.
func TestTimeThatIsUpBetweenTwoPiecesParksTheBeat(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		for i := range 3 {
			w.plan(t, w.addObjective(t, fmt.Sprint(i), 5), "one")
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		named := 0
		w.IDs = func() string { // the second piece gets its id
			if named++; named == 3 {
				cancel()
			}
			return ids()
		}
		tick := slot(1)
		tick.Workspace = w.Workspace
		r, err := w.Run(ctx, tick)
		if err != nil || r.Outcome != heartbeat.Parked || r.Reason != "the time was up" || r.Phases[3].Done != 1 || r.Left != 2 {
			t.Errorf("it is %+v, %v", r, err)
		}
		w.mustBeFree(t)
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed || r.Left != 0 {
			t.Errorf("the next is %+v", r)
		}
	})
}

// TestABeatByHandGoesOnWhileAnotherWaits: beats that are asked for at once run one after the other.
func TestABeatByHandGoesOnWhileAnotherWaits(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		w.Workspace = dbtest.NewWorkspace(t, w.DB)
		w.plan(t, w.addObjective(t, "x", 9), "one", "two")
		w.think(first("advance", func() {
			info := must(w.Lanes.Peek(t.Context(), w.Workspace, lane.Heartbeat))(t)
			if err := w.Lanes.Want(t.Context(), w.Workspace, info, "heartbeat/"+ids()+"/hb_2"); err != nil {
				t.Error(err)
			}
		}))
		if r := must(w.Run(t.Context(), heartbeat.Tick{Workspace: w.Workspace}))(t); r.Outcome != heartbeat.Completed {
			t.Errorf("it is %+v", r)
		}
	})
}

func TestSomebodyWhoWaitsParksTheBeatAtItsNextStep(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for _, ofBeat := range []bool{true, false} {
			w := newWorld(t, e, nil)
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			urgent := w.plan(t, w.addObjective(t, "x", 9), "one")
			other := w.plan(t, w.addObjective(t, "y", 1), "one")
			wanted := map[bool]lane.Name{true: lane.Heartbeat, false: lane.Objective(urgent)}[ofBeat]
			w.think(first("advance", func() { w.want(t, wanted) }))
			r := w.beat(t, slot(1))
			if r.Outcome != heartbeat.Parked || !strings.Contains(r.Reason, "ada waits for lane "+string(wanted)) {
				t.Errorf("%s wanted: it is %+v", wanted, r)
			}
			piece := w.the(t, lane.Objective(urgent))
			if piece.Status != execution.Parked || piece.Tokens != 15 || w.objective(t, urgent).Plan[0].Status != objective.Done {
				t.Errorf("%s wanted: the piece is %+v", wanted, piece)
			}
			served := w.objective(t, other).Plan[0].Status == objective.Done
			if served == ofBeat || r.Left != map[bool]int{true: 2, false: 1}[ofBeat] {
				t.Errorf("%s wanted: the other objective is served: %v; the report is %+v", wanted, served, r)
			}
			w.mustBeFree(t)
			if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed {
				t.Errorf("%s wanted: the next is %+v", wanted, r)
			}
		}
	})
}

func TestAPersonWhoComesInMidBeatParksIt(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, nil)
		var operate *lane.Hold
		w.think(first("plan", func() { operate = w.acquire(t, lane.Operate) }))
		var last string
		for i := range 4 {
			last = w.addObjective(t, fmt.Sprint(i), 5)
		}
		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Parked || r.Reason != "a person works in operate" || r.Phases[1].Done != 1 || r.Phases[1].Left != 3 || r.Phases[3].Done != 0 {
			t.Errorf("it is %+v", r)
		}
		if got := len(w.executions(t)); got != 2 {
			t.Errorf("%d executions", got)
		}
		if _, err := w.Lanes.Peek(t.Context(), w.Workspace, lane.Objective(last)); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("it goes on to take lanes: %v", err)
		}
		w.release(t, operate)
		w.mustBeFree(t)
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Completed {
			t.Errorf("the next is %+v", r)
		}
	})
}
