package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// entries reads the rows of a task's log about one event, oldest first.
func (w world) entries(t testing.TB, id string, about task.Event) (found []task.Entry) {
	t.Helper()
	for _, e := range slices.Backward(w.logs(t, id)) {
		if e.Event == about {
			found = append(found, e)
		}
	}
	return found
}

// TestConflictsAreLogged: a report on another attempt than the present one leaves one row per
// attempt, however often it comes.
func TestConflictsAreLogged(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		is := w.running(t, draft("fenced"))
		first := is.Agent
		if _, err := w.fail(t, is.ID, 1, false); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(time.Hour)
		if _, err := w.retry(t, is.ID); err != nil {
			t.Fatal(err)
		}
		w.assign(t, is.ID)
		for _, named := range []int{1, 1, 7, 8, 9, 1} {
			_, err := w.complete(t, is.ID, named)
			stale, ok := errors.AsType[*task.StaleError](err)
			if !ok {
				t.Fatalf("a report on attempt %d: %v", named, err)
			}
			if err := w.s.NoteConflict(t.Context(), w.Workspace, stale); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.complete(t, is.ID, 2); err != nil {
			t.Fatal(err)
		}
		_, err := w.complete(t, is.ID, 2)
		if stale, ok := errors.AsType[*task.StaleError](err); !ok || w.s.NoteConflict(t.Context(), w.Workspace, stale) != nil {
			t.Fatal(err)
		}
		var told []string
		for i, e := range w.entries(t, is.ID, task.Conflict) {
			told = append(told, fmt.Sprintf("%s %d %s %s", e.Level, e.Attempt, e.Actor, e.Details))
			if (i == 0) != (e.Agent == first) || e.From != "" || e.To != "" {
				t.Errorf("%+v", e)
			}
		}
		if want := []string{
			`WARN 1 agent:a {"named_attempt":1,"present_attempt":2}`, `WARN 7 agent:a {"named_attempt":7,"present_attempt":2}`,
			`WARN 2 agent:a {"named_attempt":2,"present_attempt":2}`,
		}; !slices.Equal(told, want) {
			t.Errorf("the log tells %q, want %q", told, want)
		}
	})
}

// TestTheSameProgressWritesNothing: only what differs leaves a row.
func TestTheSameProgressWritesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.running(t, draft("told twice")).ID
		half, step, empty := 50, "reads", ""
		p := task.Progress{Percent: &half, Step: &step, Checkpoint: []byte(`{"at":1}`)}
		is, err := w.advance(t, id, 1, p)
		if err != nil {
			t.Fatal(err)
		}
		rows := len(w.logs(t, id))
		for _, same := range []task.Progress{p, {}, {Percent: &half}, {Step: &step}, {Checkpoint: []byte(`{"at":1}`)}} {
			if got, err := w.advance(t, id, 1, same); err != nil || got.Version != is.Version || string(got.Checkpoint) != `{"at":1}` {
				t.Errorf("%+v, %v", got, err)
			}
		}
		if n := len(w.logs(t, id)); n != rows {
			t.Errorf("the log has %d rows more", n-rows)
		}
		if _, err := w.advance(t, id, 2, task.Progress{}); err == nil {
			t.Error("another attempt may say nothing new")
		}
		more := 51
		is, err = w.advance(t, id, 1, task.Progress{Percent: &more, Checkpoint: p.Checkpoint})
		if err != nil || is.Progress != 51 || is.CheckpointVersion != 1 || len(w.entries(t, id, task.ProgressUpdate)) != 1 {
			t.Errorf("%+v, %v", is, err)
		}
		if is, err = w.advance(t, id, 1, task.Progress{Step: &empty}); err != nil || is.CurrentStep != "" || len(w.logs(t, id)) != rows+2 {
			t.Errorf("%+v, %v", is, err)
		}
	})
}

// TestADecisionReadsNoJSON: a task that is only decided on is read without its large columns.
func TestADecisionReadsNoJSON(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := draft("large")
		d.Input = []byte(`{"a":1}`)
		is := w.create(t, d)
		title := "other"
		var seen task.Task
		is = w.must(t, func(ctx context.Context, tx *db.Tx) (task.Task, error) {
			return w.s.Patch(ctx, tx, is.ID, "user:ada", func(at task.Task) error { seen = at; return nil }, task.Patch{Title: &title})
		})
		if seen.Version != 1 || seen.Input != nil || string(is.Input) != `{"a":1}` || is.Title != title {
			t.Errorf("decided on %+v, returned %+v", seen, is)
		}
	})
}

// TestATaskInItsBackoff may be cancelled, which is no transition, and is retried once it is over.
func TestATaskInItsBackoff(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		is := w.running(t, draft("waits"))
		is, err := w.fail(t, is.ID, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.retry(t, is.ID)
		early, ok := errors.AsType[*task.StatusError](err)
		until := is.NextAttemptAt.UTC().Format(time.RFC3339)
		if !ok || !slices.Equal(early.Legal, []task.Status{task.Failed, task.Archived}) || !strings.Contains(early.Error(), "its backoff is over at "+until) {
			t.Errorf("a retry in the backoff: %v, %+v", err, early)
		}
		other := w.running(t, draft("is retried"))
		if _, err = w.fail(t, other.ID, 1, false); err != nil {
			t.Fatal(err)
		}
		if is, err = w.cancel(t, is.ID); err != nil || !is.Cancelled || is.NextAttemptAt != nil {
			t.Fatalf("%+v, %v", is, err)
		}
		for _, e := range w.entries(t, is.ID, task.Transition) {
			if !slices.Contains(legal[e.From], e.To) {
				t.Errorf("the log has the transition %s to %s", e.From, e.To)
			}
		}
		called := w.entries(t, is.ID, task.Recovery)
		if len(called) != 1 || called[0].Message != "enough" || called[0].From != "" || called[0].To != "" || string(called[0].Details) != `{"cancelled":true}` {
			t.Errorf("the cancellation is told as %+v", called)
		}
		w.Skew.Advance(time.Hour)
		if got := w.get(t, other.ID); !slices.Equal(got.Legal(), legal[task.Aborted]) {
			t.Errorf("after its backoff it may become %v", got.Legal())
		}
		if _, err := w.retry(t, other.ID); err != nil {
			t.Error(err)
		}
	})
}
