package budget

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// PauseReason is the status reason of a task that a spent budget has paused. Such a task goes on by
// itself.
const PauseReason = "Budget exceeded"

// Overspent is a task at work whose budget is spent.
type Overspent struct {
	Task    string
	Attempt int
	Agent   string
	Scope   Scope
	ScopeID string
	FreesAt time.Time // when the budget's next period begins
}

// Why says in a sentence why the task is paused.
func (o Overspent) Why() string {
	e := RefusedError{Scope: o.Scope, ScopeID: o.ScopeID}
	return fmt.Sprintf("%s: that of %s is spent until %s", PauseReason, e.Level(), o.FreesAt.UTC().Format(time.RFC3339))
}

// Exhaustion is what a cycle of the coordinator does for budgets.
type Exhaustion struct {
	Pause  []Overspent // each task once, sorted by id
	Resume []string    // ids of tasks that a budget paused and that may go on, sorted
}

// maxTasks bounds the tasks of one answer; the next cycle gets the rest.
const maxTasks = 1000

// Exhausted reads which tasks a spent budget must pause, and which tasks may go on because no budget
// holds them up any more: more is allocated, or a new period has begun. The caller changes them. It also
// learns from tasks that were finished since. It takes three statements in one round trip.
func (s *Store) Exhausted(ctx context.Context, tx Tx) (Exhaustion, error) {
	var out Exhaustion
	b := tx.Later()
	b.Exec(s.q.Learn, perComplexity)
	b.Each(func(scan db.Scan) error {
		var o Overspent
		err := scan(&o.Task, &o.Attempt, db.Optional(&o.Agent), &o.Scope, &o.ScopeID, &o.FreesAt)
		if n := len(out.Pause); n == 0 || out.Pause[n-1].Task != o.Task {
			out.Pause = append(out.Pause, o)
		}
		return err
	}, s.q.Exhausted, maxTasks)
	err := tx.Each(ctx, db.Column(&out.Resume), s.q.Resumable, PauseReason, maxTasks)
	if err != nil {
		return Exhaustion{}, fmt.Errorf("look for spent budgets: %w", err)
	}
	return out, nil
}
