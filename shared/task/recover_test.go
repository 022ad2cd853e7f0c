package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// attemptBy begins an attempt of an agent.
func (w world) attemptBy(t testing.TB, id, agent string) {
	t.Helper()
	var b db.Batch
	b.Exec(w.q.Assign, id, agent)
	b.Exec(w.q.Attempt, id)
	b.Exec(w.q.Start, id)
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
}

func TestAnAgentReportsOnWhatItHolds(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first, second, third := ids(), ids(), ids()
		is := w.create(t, draft("one"))
		w.attemptBy(t, is.ID, first)
		w.must(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
			return w.s.Fail(ctx, tx, task.Report{Task: is.ID, Actor: "user:ada"}, task.Failure{Error: "it broke", Final: true})
		})
		if _, err := w.retry(t, is.ID); err != nil {
			t.Fatal(err)
		}
		w.attemptBy(t, is.ID, second)
		report := func(agent string, attempt int) error {
			_, err := w.change(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
				is, _, err := w.s.Advance(ctx, tx, task.Report{Task: is.ID, Attempt: attempt, Actor: "agent:" + agent, Agent: agent}, task.Progress{})
				return is, err
			})
			return err
		}
		for _, attempt := range []int{0, 2} {
			if err := report(second, attempt); err != nil {
				t.Errorf("who holds attempt 2 names %d: %v", attempt, err)
			}
			if err := report(third, attempt); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("who never had an attempt names %d: %v", attempt, err)
			}
		}
		stale := func(agent string, names, says int) {
			t.Helper()
			var e *task.StaleError
			if err := report(agent, names); !errors.As(err, &e) || e.Attempt != says || e.Present != 2 {
				t.Errorf("a report that names %d: %v, %+v", names, err, e)
			}
		}
		stale(first, 0, 1)
		stale(first, 1, 1)
		stale(first, 2, 2)
		stale(second, 1, 1)
		if _, err := w.complete(t, is.ID, 2); err != nil {
			t.Fatal(err)
		}
		stale(second, 0, 2)
		stale(second, 2, 2)
		for agent, want := range map[string]error{first: nil, second: nil, third: db.ErrNoRows} {
			if _, err := w.s.GetOf(t.Context(), w.Workspace, is.ID, agent); !errors.Is(err, want) {
				t.Errorf("read by its agent: %v, want %v", err, want)
			}
		}
	})
}

func TestARecoveredTaskGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		recovered := func(id string, attempt int) bool {
			var did bool
			w.must(t, func(ctx context.Context, tx *db.Tx) (is task.Task, err error) {
				n, err := w.s.RecoverAll(ctx, tx, []task.Report{{Task: id, Attempt: attempt, Actor: "user:ada"}}, "its agent was terminated")
				did = n == 1
				return is, err
			})
			return did
		}
		d := draft("one")
		d.MaxRetries = 1
		is := w.running(t, d)
		if _, err := w.advance(t, is.ID, 1, task.Progress{Checkpoint: json.RawMessage(`{"page":3}`)}); err != nil {
			t.Fatal(err)
		}
		if recovered(is.ID, 2) || !recovered(is.ID, 1) || recovered(is.ID, 1) {
			t.Error("an attempt is recovered once, while it is the present one")
		}
		now := w.get(t, is.ID)
		if now.Status != task.Aborted || now.Cancelled || now.NextAttemptAt == nil || now.Retries != 1 || now.Agent != "" || string(now.Checkpoint) != `{"page":3}` ||
			now.LastError != "its agent was terminated" {
			t.Errorf("recovered: %+v", now)
		}
		waits := w.create(t, d)
		w.assign(t, waits.ID)
		if !recovered(waits.ID, 1) {
			t.Error("an assignment is not recovered")
		}
		if now := w.get(t, waits.ID); now.Status != task.Pending || now.Retries != 0 || now.Agent != "" {
			t.Errorf("an assignment that was recovered: %+v", now)
		}
		d.MaxRetries = 0
		last := w.running(t, d)
		recovered(last.ID, 1)
		if now := w.get(t, last.ID); now.Status != task.Failed || now.FailedAt == nil || now.Agent != "" {
			t.Errorf("without retries: %+v", now)
		}
		told := w.logs(t, last.ID)
		if told[0].Message != "max retries exceeded (0/0)" || told[1].Event != task.Recovery || told[1].Message != "its agent was terminated" {
			t.Errorf("its log: %+v", told[:2])
		}
	})
}
