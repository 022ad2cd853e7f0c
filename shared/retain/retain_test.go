package retain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/quiet"
	"github.com/lanekeeper/lanekeeper/shared/retain"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine.
type world struct {
	dbtest.Env
	s   *retain.Store
	log *activity.Log
	q   queries
}

type queries struct {
	Executions, Count, Happens, OldOutbox, OldRun, Outboxes           db.Query
	Dismissed, Dismissals, FailsAgain                                 db.Query
	ManyMemories, ManyUsages, Left, Day, Budgets, Approval, Approvals db.Query
	Task, TaskLine, TaskLines                                         db.Query
	Delivery, Deliveries                                              db.Query
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	var err1, err2 error
	w.s, err1 = retain.New(e.DB)
	w.log, err2 = activity.New(e.DB, ids)
	dbtest.Load(t, "testdata", &w.q)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return w
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

// happened records successful calls.
func (w world) happened(t testing.TB, times int) {
	t.Helper()
	for range times {
		e := activity.Entry{Agent: activity.Operator, Surface: trace.Heartbeat, Skill: "x", Status: activity.Success, Trace: "hb_test"}
		if err := w.log.Write(t.Context(), w.Workspace, e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsOldGoes(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		keep := retain.Retention{Activity: 90 * 24 * time.Hour, Events: 7 * 24 * time.Hour, Outbox: 30 * 24 * time.Hour}
		due := func() bool {
			var b db.Batch
			asks, err := quiet.New()
			if err != nil {
				t.Fatal(err)
			}
			oldest := &asks.Look(&b, quiet.Question{}).Oldest
			if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
			return oldest.Due(keep)
		}
		counts := func() string {
			var activities, executions, events int
			if err := w.DB.One(t.Context(), w.Workspace, []any{&activities, &executions, &events}, w.q.Count); err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(activities, " ", executions, " ", events)
		}
		fill := func() {
			w.happened(t, 2)
			for i, status := range []string{"completed", "running"} {
				if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Executions, ids(), "hb", fmt.Sprint("s", i, ids()), status); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Happens); err != nil {
				t.Fatal(err)
			}
		}
		neighbour := w.Env
		neighbour.Workspace = dbtest.NewWorkspace(t, w.DB)
		other := newWorld(t, neighbour)
		fill()
		other.happened(t, 1)
		if due() {
			t.Error("something is due at once")
		}
		for _, step := range []struct {
			advance time.Duration
			want    string
		}{{8 * 24 * time.Hour, "2 2 0"}, {83 * 24 * time.Hour, "0 1 0"}} {
			w.Skew.Advance(step.advance)
			if !due() {
				t.Errorf("nothing is due after %v", step.advance)
			}
			if more, err := w.s.Purge(t.Context(), w.Workspace, keep); err != nil || more {
				t.Fatal(more, err)
			}
			if got := counts(); got != step.want {
				t.Errorf("left are %s, not %s", got, step.want)
			}
		}
		var n, ignore int
		if err := other.DB.One(t.Context(), other.Workspace, []any{&n, &ignore, &ignore}, w.q.Count); err != nil || n != 1 {
			t.Errorf("the neighbour's: %d, %v", n, err)
		}
		if _, err := w.s.Purge(t.Context(), w.Workspace, retain.Retention{Activity: time.Hour, Events: time.Hour}); (err == nil) != (w.DB.Dialect() == db.SQLite) {
			t.Errorf("an hour's retention: %v", err)
		}
	})
}

func TestPurgeGoesByTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		keep := retain.Retention{Activity: 90 * 24 * time.Hour, Events: 7 * 24 * time.Hour, Outbox: 30 * 24 * time.Hour}
		_, err1 := w.DB.Exec(t.Context(), w.Workspace, w.q.OldOutbox, ids(), "uncertain", ids(), outbox.Message)
		_, err2 := w.DB.Exec(t.Context(), w.Workspace, w.q.OldOutbox, ids(), "failed", ids(), outbox.Kick) // ended just now
		_, err3 := w.DB.Exec(t.Context(), w.Workspace, w.q.OldRun, ids())                                  // ended just now
		_, err4 := w.s.Purge(t.Context(), w.Workspace, keep)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		var rows, a, runs, e int
		err := errors.Join(w.DB.One(t.Context(), w.Workspace, []any{&rows}, w.q.Outboxes), w.DB.One(t.Context(), w.Workspace, []any{&a, &runs, &e}, w.q.Count))
		if err != nil || rows != 2 || runs != 1 {
			t.Errorf("left of 2 outbox rows: %d, of 1 execution that ended just now: %d, %v", rows, runs, err)
		}
	})
}

// Uncertain messages need a person's decision, and approved calls are still to be made. They stay, however old they
// are, until a person has dismissed them.
func TestWhatAPersonHasToLookAtStays(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		dismissed := ids()
		for id, row := range map[string][2]any{
			ids(): {"uncertain", outbox.Message}, dismissed: {"uncertain", outbox.Message}, ids(): {"failed", outbox.Kick},
			ids(): {"uncertain", outbox.Webhook}, ids(): {"uncertain", outbox.Kick}, ids(): {"uncertain", outbox.Spawn},
		} {
			if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.OldOutbox, id, row[0], ids(), row[1]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Dismissed, dismissed); err != nil {
			t.Fatal(err)
		}
		for _, status := range []string{"approved", "rejected"} {
			if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Approval, ids(), status); err != nil {
				t.Fatal(err)
			}
		}
		w.Skew.Advance(100 * 24 * time.Hour)
		if _, err := w.s.Purge(t.Context(), w.Workspace, retain.Retention{Activity: 90 * 24 * time.Hour, Events: 7 * 24 * time.Hour, Outbox: 30 * 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		var rows, approvals int
		err := errors.Join(
			w.DB.One(t.Context(), w.Workspace, []any{&rows}, w.q.Outboxes), w.DB.One(t.Context(), w.Workspace, []any{&approvals}, w.q.Approvals))
		if err != nil || rows != 1 || approvals != 1 {
			t.Errorf("left of 6 outbox rows: %d, of 2 approvals: %d, %v", rows, approvals, err)
		}
	})
}

// TestADismissalGoesWithItsFailure: it stays for as long as the row that failed.
func TestADismissalGoesWithItsFailure(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		goes, stays := ids(), ids()
		for _, id := range []string{goes, stays} {
			_, err1 := w.DB.Exec(t.Context(), w.Workspace, w.q.OldOutbox, id, "uncertain", ids(), outbox.Message)
			_, err2 := w.DB.Exec(t.Context(), w.Workspace, w.q.Dismissed, id)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.FailsAgain, stays); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(100 * 24 * time.Hour)
		if _, err := w.s.Purge(t.Context(), w.Workspace, retain.Retention{Activity: 90 * 24 * time.Hour, Events: 7 * 24 * time.Hour, Outbox: 30 * 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		var rows, dismissals int
		err := errors.Join(
			w.DB.One(t.Context(), w.Workspace, []any{&rows}, w.q.Outboxes), w.DB.One(t.Context(), w.Workspace, []any{&dismissals}, w.q.Dismissals))
		if err != nil || rows != 1 || dismissals != 1 {
			t.Errorf("left of 2 rows: %d, of 2 dismissals: %d, %v", rows, dismissals, err)
		}
	})
}

// TestABacklogGoesInRounds of 2,000 rows of a kind. Usage is kept for at least a month.
func TestABacklogGoesInRounds(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		keep := retain.Retention{Activity: 4 * 24 * time.Hour, Events: 7 * 24 * time.Hour, Outbox: 30 * 24 * time.Hour}
		_, err1 := w.DB.Exec(t.Context(), w.Workspace, w.q.ManyMemories, 2_100, 61)
		_, err2 := w.DB.Exec(t.Context(), w.Workspace, w.q.ManyUsages, 2_000, 32)
		_, err3 := w.DB.Exec(t.Context(), w.Workspace, w.q.ManyUsages, 5, 30)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		var b db.Batch
		asks, err := quiet.New()
		if err != nil {
			t.Fatal(err)
		}
		oldest := &asks.Look(&b, quiet.Question{}).Oldest
		if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil || !oldest.Due(keep) {
			t.Errorf("usage of a month ago is not due: %v", err)
		}
		for round, want := range []struct {
			more             bool
			memories, usages int
		}{{true, 100, 5}, {false, 0, 5}} {
			more, err1 := w.s.Purge(t.Context(), w.Workspace, keep)
			var memories, usages int
			err2 := w.DB.One(t.Context(), w.Workspace, []any{&memories, &usages}, w.q.Left)
			if err := errors.Join(err1, err2); err != nil || more != want.more || memories != want.memories || usages != want.usages {
				t.Errorf("round %d: %d memories and %d usages are left, more: %v, %v", round, memories, usages, more, err)
			}
		}
	})
}

func TestDaysThatNobodyMadeGoAfterAMonth(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, day := range []struct {
			by  string
			ago int
		}{{"lanekeeper", 33}, {"lanekeeper", 31}, {"ada", 90}} {
			if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Day, ids(), day.by, day.ago); err != nil {
				t.Fatal(err)
			}
		}
		var left int
		_, err := w.s.Purge(t.Context(), w.Workspace, retain.Retention{Activity: 4 * 24 * time.Hour, Events: 7 * 24 * time.Hour, Outbox: 30 * 24 * time.Hour})
		if err := errors.Join(err, w.DB.One(t.Context(), w.Workspace, []any{&left}, w.q.Budgets)); err != nil || left != 2 {
			t.Errorf("%d are left, %v", left, err)
		}
	})
}

// TestTheLogsOfTasksGoWhenTheyAreOver and have been for as long as activities are kept, conflicts
// among them, whose ids do not grow with time.
func TestTheLogsOfTasksGoWhenTheyAreOver(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		do := func(q db.Query, args ...any) {
			t.Helper()
			if _, err := w.DB.Exec(t.Context(), w.Workspace, q, args...); err != nil {
				t.Fatal(err)
			}
		}
		tasks := []struct {
			status    string
			cancelled bool
			left      int
		}{{"COMPLETED", false, 0}, {"FAILED", false, 0}, {"ARCHIVED", true, 0}, {"ABORTED", true, 0}, {"ABORTED", false, 2}, {"PENDING", false, 2}, {"RUNNING", false, 2}}
		made := make([]string, len(tasks))
		for i, of := range tasks {
			made[i] = ids()
			do(w.q.Task, made[i], 0, of.status, of.cancelled)
			do(w.q.TaskLine, ids(), made[i], 0, "created")
			do(w.q.TaskLine, "ffffffff-ffff-4fff-bfff-"+made[i][24:], made[i], 0, "conflict")
		}
		late, line := ids(), ids() // over since a moment ago, with an old log
		lone, odd := ids(), ids()
		do(w.q.Task, lone, 0, "COMPLETED", false)
		do(w.q.TaskLine, ids(), lone, 0, "created")
		do(w.q.Task, odd, 0, "COMPLETED", false)
		do(w.q.TaskLine, "ffffffff-ffff-7fff-bfff-"+odd[24:], odd, 0, "created") // beyond the ids that a purge reads
		w.Skew.Advance(48 * time.Hour)
		do(w.q.TaskLine, "ffffffff-ffff-4fff-bfff-"+lone[24:], lone, 0, "conflict") // a late report, long after the rest
		w.Skew.Advance(-48 * time.Hour)
		w.Skew.Advance(91 * 24 * time.Hour)
		do(w.q.Task, late, 0, "COMPLETED", false)
		do(w.q.TaskLine, line, late, 91, "created")
		keep := retain.Retention{Activity: 90 * 24 * time.Hour, Events: 7 * 24 * time.Hour, Outbox: 30 * 24 * time.Hour}
		if _, err := w.s.Purge(t.Context(), w.Workspace, keep); err != nil {
			t.Fatal(err)
		}
		left := func(task string) (n int) {
			t.Helper()
			if err := w.DB.One(t.Context(), w.Workspace, []any{&n}, w.q.TaskLines, task); err != nil {
				t.Fatal(err)
			}
			return n
		}
		for i, of := range tasks {
			if got := left(made[i]); got != of.left {
				t.Errorf("of the log of a task that is %s, cancelled: %v, %d rows are left, not %d", of.status, of.cancelled, got, of.left)
			}
		}
		if got := left(odd); got != 1 {
			t.Error("a purge looks at rows of any id")
		}
		if got := left(lone); got != 1 {
			t.Errorf("%d rows are left of a task with a later conflict, not 1", got)
		}
		w.Skew.Advance(3 * 24 * time.Hour)
		if _, err := w.s.Purge(t.Context(), w.Workspace, keep); err != nil {
			t.Fatal(err)
		}
		if got := left(lone); got != 0 {
			t.Errorf("of a conflict that was logged after the rest %d rows are left", got)
		}
		if got := left(late); got != 1 {
			t.Errorf("of the log of a task that ended now %d rows are left, not 1", got)
		}
	})
}

// TestDeliveriesAreKeptAsLongAsTheInbox checks that received webhooks are kept as long as is said, and no shorter
// than the rows of the outbox by which they began.
func TestDeliveriesAreKeptAsLongAsTheInbox(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		const day = 24 * time.Hour
		for _, old := range []int{80, 40, 20} {
			if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Delivery, ids(), []byte("{}"), strings.Repeat("0", 64), old); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct{ inbox, want int }{{90, 3}, {60, 2}, {5, 1}} {
			keep := retain.Retention{Activity: 90 * day, Events: 7 * day, Outbox: 30 * day, Inbox: time.Duration(step.inbox) * day}
			if _, err := w.s.Purge(t.Context(), w.Workspace, keep); err != nil {
				t.Fatal(err)
			}
			var left int
			if err := w.DB.One(t.Context(), w.Workspace, []any{&left}, w.q.Deliveries); err != nil || left != step.want {
				t.Errorf("with an inbox of %d days %d deliveries are left, want %d: %v", step.inbox, left, step.want, err)
			}
		}
	})
}
