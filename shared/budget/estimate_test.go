package budget_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

func TestEstimate(t *testing.T) {
	learned := budget.Corrections{"docs": 500, "odd": 1001, "nothing": 0}
	for _, c := range []struct {
		what string
		of   budget.TaskShape
		want int64
	}{
		{"complexity × 1000 × 1.2 × 1.3 × 1.15", budget.TaskShape{Complexity: 1}, 1794},
		{"a missing complexity is 5", budget.TaskShape{}, 8970},
		{"a senseless complexity is 5", budget.TaskShape{Complexity: -3}, 8970},
		{"half of the formula", budget.TaskShape{Type: "docs", Complexity: 10}, 8970},
		{"rounded up", budget.TaskShape{Type: "odd", Complexity: 1}, 1796},
		{"never nothing", budget.TaskShape{Type: "nothing", Complexity: 1}, 2},
		{"of another type", budget.TaskShape{Type: "code", Complexity: 10}, 17_940},
		{"what is given is not corrected", budget.TaskShape{Type: "docs", Complexity: 10, EstimatedTokens: 777}, 777},
	} {
		if got := budget.Estimate(c.of, learned); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// shapes are metadata with the complexity and the estimate that they say.
var shapes = []struct {
	metadata   string
	complexity int
	tokens     int64
}{
	{`{}`, 5, 0},
	{`{"complexity": 7}`, 7, 0},
	{`{"complexity": 7.2, "estimatedTokens": 99.5}`, 8, 100},
	{`{"complexity": "7", "estimatedTokens": "many"}`, 5, 0},
	{`{"complexity": 0, "estimatedTokens": 0}`, 5, 0},
	{`{"complexity": -4, "estimatedTokens": -1}`, 5, 0},
	{`{"complexity": null}`, 5, 0},
	{`{"complexity": 5000}`, 1000, 0},
	{`{"complexity": 0.2}`, 1, 0},
	{`{"complexity": [3]}`, 5, 0},
}

func TestShape(t *testing.T) {
	for _, c := range append(shapes, struct {
		metadata   string
		complexity int
		tokens     int64
	}{`{"complexity": 1e999`, 5, 0}) {
		got := budget.Shape("code", 7, json.RawMessage(c.metadata))
		if got.Type != "code" || got.Priority != 7 || got.EstimatedTokens != c.tokens || max(got.Complexity, 0) != c.complexity && (got.Complexity != 0 || c.complexity != 5) {
			t.Errorf("%s: %+v", c.metadata, got)
		}
	}
}

// finish completes tasks that used tokens.
func (w world) finish(t testing.TB, taskType, metadata string, tokens ...int) {
	t.Helper()
	var b db.Batch
	for _, n := range tokens {
		id := newID()
		b.Exec(w.q.AddTasks, id, taskType, metadata)
		if n > 0 {
			b.Exec(w.q.AddUsage, newID(), id, n)
		}
	}
	b.Exec(w.q.FinishAll)
	check(t, w.DB.Do(t.Context(), w.Workspace, &b))
}

// learn learns, and returns what is known then.
func (w world) learn(t testing.TB) (c budget.Corrections) {
	t.Helper()
	check(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		if _, err = w.s.Exhausted(ctx, tx); err == nil {
			c = w.s.Corrections(tx.Later())
			err = tx.Flush(ctx)
		}
		return err
	}))
	return c
}

// repeat returns n times a number.
func repeat(n, v int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestEstimatesLearnFromWhatTasksUsed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.finish(t, "docs", `{"complexity": 2}`, append(repeat(12, 1794), 1, 2, 3, 4, 5, 90_000, 90_000, 90_000, 90_000)...)
		w.finish(t, "rare", `{}`, repeat(19, 8970*3)...)
		w.finish(t, "unused", `{}`, repeat(30, 0)...)
		other := w
		other.Workspace = newWorkspace(t, w)
		other.finish(t, "docs", `{}`, repeat(20, 8970*2)...)
		if got := w.learn(t); fmt.Sprint(got) != "map[docs:500]" {
			t.Errorf("learned %v", got)
		}
		w.Skew.Advance(time.Hour)
		w.finish(t, "rare", `{}`, 8970*3)
		if got := w.learn(t); fmt.Sprint(got) != "map[docs:500 rare:3000]" {
			t.Errorf("after one more: %v", got)
		}
		// Of many, the last 200 count.
		w.Skew.Advance(time.Hour)
		w.finish(t, "rare", `{}`, repeat(200, 8970)...)
		if got := w.learn(t); got["rare"] != 1000 {
			t.Errorf("after 200 others: %v", got)
		}
		if got := other.learn(t); fmt.Sprint(got) != "map[docs:2000]" {
			t.Errorf("a neighbour learned %v", got)
		}
		past, err := w.s.History(t.Context(), w.Workspace, "docs", db.Position{}, 50)
		check(t, err)
		if len(past) != 21 || past[0].Complexity != 2 || past[0].Estimated != 3588 {
			t.Errorf("%d in the past, the first %+v", len(past), past[0])
		}
		known, err := w.s.Learned(t.Context(), w.Workspace)
		if err != nil || len(known) != 2 || known[0] != (budget.Learned{Type: "docs", Samples: 21, Factor: 500}) || known[1].Samples != 200 {
			t.Errorf("known is %+v, %v", known, err)
		}
	})
}

// TestThePastHasTheComplexityOfTheEstimate: the database and the estimate read metadata alike.
func TestThePastHasTheComplexityOfTheEstimate(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i, c := range shapes {
			w.finish(t, fmt.Sprintf("type %d", i), c.metadata, 10)
			past, err := w.s.History(t.Context(), w.Workspace, fmt.Sprintf("type %d", i), db.Position{}, 5)
			if err != nil || len(past) != 1 || past[0].Complexity != c.complexity || past[0].Used != 10 {
				t.Errorf("%s: %+v, %v", c.metadata, past, err)
			}
		}
	})
}

// TestAnAssignmentsEstimateStandsBesideWhatWasUsed of all attempts.
func TestAnAssignmentsEstimateStandsBesideWhatWasUsed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		c := budget.Cover{Task: w.aTask(t, "", "{}").ID, Agent: newID()}
		for i := range 2 {
			number, _ := w.assign(t, c, 1000+int64(i), 0)
			w.report(t, c, number, "demo", usage(300))
			if i == 0 {
				w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
					return w.tasks.Pause(ctx, tx, c.Task, "ada", "enough", "enough")
				})
				pending := task.Pending
				w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
					return w.tasks.Patch(ctx, tx, c.Task, "ada", func(task.Task) error { return nil }, task.Patch{Status: &pending})
				})
			}
		}
		w.complete(t, c.Task)
		past, err := w.s.History(t.Context(), w.Workspace, "", db.Position{}, 5)
		if err != nil || len(past) != 1 || past[0].Task != c.Task || past[0].Estimated != 1001 || past[0].Used != 600 {
			t.Errorf("the past is %+v, %v", past, err)
		}
	})
}
