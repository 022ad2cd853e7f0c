package budget_test

import (
	"fmt"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

func usage(tokens int) llm.Usage { return llm.Usage{PromptTokens: tokens} }

func TestPace(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		pace := func(want budget.Pace) {
			t.Helper()
			if got, err := w.s.Pace(t.Context(), w.Workspace); err != nil || got != want {
				t.Errorf("the pace is %q (%v), want %q", got, err, want)
			}
		}
		pace(budget.Continue)
		ask := request("a", 1000)
		ask.Day = 1100
		w.settle(t, w.reserve(t, ask), 1000)
		pace(budget.Continue) // a daily budget of the beats says nothing
		b := w.create(t, w.month(budget.Global, "", 100_000))
		pace(budget.Continue)
		for _, c := range []struct {
			allocated int64
			want      budget.Pace
		}{{7000, budget.Continue}, {6900, budget.Throttle}, {1000, budget.Throttle}, {990, budget.Stop}} {
			_, err := w.patch(t, b.ID, 0, c.allocated)
			check(t, err)
			pace(c.want)
		}
		agent := w.month(budget.Agent, "ann", 1000)
		agent.Capped, agent.MicroUSD.Allocated = true, 30_000
		w.create(t, agent)
		_, err := w.patch(t, b.ID, 0, 100_000_000)
		check(t, err)
		paid := request("ann", 700)
		paid.Model = "claude-sonnet-4"
		w.settleAs(t, w.reserve(t, paid), budget.Used{Usage: llm.Usage{CompletionTokens: 500}})
		pace(budget.Continue)
		var batch db.Batch
		both := w.s.PaceIn(&batch, "ann", "ann:hb")
		check(t, w.DB.Read(t.Context(), w.Workspace, &batch))
		if got := both(); got != budget.Throttle { // its money lasts three days
			t.Errorf("with the agent's the pace is %q", got)
		}
	})
}

func TestWhatAPaceAdmits(t *testing.T) {
	for _, c := range []struct {
		pace       budget.Pace
		priorities string
		slots      int
	}{
		{budget.Continue, "[1 2 3 4 5 6 7 8 9 10]", 7},
		{budget.Throttle, "[5 6 7 8 9 10]", 4},
		{budget.Stop, "[9 10]", 7},
	} {
		var admitted []int
		for priority := 1; priority <= 10; priority++ {
			if c.pace.Admits(priority) {
				admitted = append(admitted, priority)
			}
		}
		if fmt.Sprint(admitted) != c.priorities || c.pace.Slots(7) != c.slots {
			t.Errorf("%s admits %v, and %d of 7", c.pace, admitted, c.pace.Slots(7))
		}
	}
}

func TestValidate(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		c := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		number, _ := w.assign(t, c, 100, 0)
		verdict := func(lines int64, want budget.Verdict, expected int64, efficiency float64) {
			t.Helper()
			v, err := w.s.Validate(t.Context(), w.Workspace, c.Task, lines)
			check(t, err)
			if v.Verdict != want || v.Expected != expected || (v.Efficiency == nil) != (efficiency < 0) || v.Efficiency != nil && *v.Efficiency != efficiency ||
				v.Reason == "" || v.Recommendation == "" {
				t.Errorf("%d lines: %+v, want %s", lines, v, want)
			}
		}
		verdict(10, budget.NotApplicable, 1500, -1)
		verdict(0, budget.NotApplicable, 0, -1)
		w.report(t, c, number, "demo", usage(3000))
		verdict(0, budget.NotApplicable, 0, -1)
		verdict(10, budget.Valid, 1500, 0.5)
		verdict(9, budget.Wasteful, 1350, 0.45)
		verdict(40, budget.Valid, 6000, 2)
	})
}

func TestHeadroomIsWhatAnAssignmentWouldFind(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		project := w.project(t)
		c := budget.Cover{Task: w.aTask(t, project, "{}").ID, Project: project, Agent: newID()}
		room := func(shape budget.TaskShape) budget.Headroom {
			t.Helper()
			h, err := w.s.Headroom(t.Context(), w.Workspace, c, shape)
			check(t, err)
			return h
		}
		if h := room(budget.TaskShape{}); h.Tokens != 8970 || h.Refused != nil {
			t.Errorf("without budgets: %+v", h)
		}
		b := w.create(t, w.month(budget.Project, project, 8000))
		if h := room(budget.TaskShape{}); h.Refused == nil || h.Refused.Scope != budget.Project || h.Refused.Remaining != 8000 || !h.Refused.FreesAt.Equal(b.End) ||
			h.Refused.Level() != "project "+project {
			t.Errorf("with too little: %+v", h.Refused)
		}
		if h := room(budget.TaskShape{EstimatedTokens: 8000}); h.Refused != nil {
			t.Errorf("with just enough: %+v", h.Refused)
		}
		w.assigned(t, c, 1)
		if h := room(budget.TaskShape{EstimatedTokens: 8000}); h.Refused == nil || h.Refused.Remaining != 7999 {
			t.Errorf("with one less: %+v", h.Refused)
		}
	})
}
