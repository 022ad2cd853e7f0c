package task_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// machine is what a task should be.
type machine struct {
	status    task.Status
	cancelled bool
	attempt   int
	retries   int
	due       bool
}

// legal is the closed list of transitions, as the contract has them.
var legal = map[task.Status][]task.Status{
	task.Pending:   {task.Assigned, task.Paused, task.Aborted, task.Failed},
	task.Assigned:  {task.Running, task.Pending, task.Paused, task.Aborted, task.Failed, task.Completed},
	task.Running:   {task.Completed, task.Failed, task.Aborted, task.Paused},
	task.Paused:    {task.Pending, task.Aborted, task.Failed},
	task.Aborted:   {task.Pending, task.Failed, task.Archived},
	task.Failed:    {task.Pending, task.Archived},
	task.Completed: {task.Archived},
}

// likely are the changes, by the numbers below, that are right for a status.
var likely = map[task.Status][]int{
	task.Pending: {0}, task.Assigned: {1, 1, 1, 2, 7}, task.Running: {2, 7, 8, 9}, task.Paused: {3}, task.Aborted: {5, 10}, task.Failed: {5},
}

// TestTransitionsFollowTheModel makes random changes, right and wrong ones, and compares each with a
// model. The log then replays to the stored state. LK_FULL=1 makes the 100,000 changes of the promise.
func TestTransitionsFollowTheModel(t *testing.T) {
	seed, most := promise.Seed(t), promise.Figure(150, 100_000)
	onEach(t, func(t *testing.T, w world) {
		proof := promise.Of(t, "R15", "random changes of tasks, right and wrong ones, on "+w.Engine, "each as the model has it, and the log replays to the stored state")
		const maxRetries = 2
		random := rand.New(rand.NewPCG(15, seed))
		made, refused, tasks := 0, 0, 0
		for ; made < most; tasks++ {
			d := draft("random")
			d.MaxRetries = maxRetries
			id := w.create(t, d).ID
			m := machine{status: task.Pending}
			for range 60 {
				if m.status == task.Archived {
					break
				}
				before, was := m, m.status
				active := was == task.Assigned || was == task.Running
				var err error
				var what string
				stale := false
				ok := false
				change := random.IntN(11)
				if right := likely[was]; right != nil && random.IntN(3) > 0 {
					change = right[random.IntN(len(right))]
				}
				switch change {
				case 0:
					what = "assign"
					if ok = was == task.Pending; ok {
						w.assign(t, id)
						w.changed(t, id, was)
						m.status, m.attempt = task.Assigned, m.attempt+1
					} else {
						continue
					}
				case 1:
					what = "start"
					if ok = was == task.Assigned; ok {
						w.start(t, id)
						w.changed(t, id, was)
						m.status = task.Running
					} else {
						continue
					}
				case 2:
					what = "pause"
					if was == task.Paused {
						continue
					}
					if ok = was == task.Pending || active; ok {
						m.status = task.Paused
					}
					_, err = w.become(t, id, task.Paused)
				case 3:
					what = "resume"
					if was == task.Pending {
						continue
					}
					if ok = was == task.Paused; ok {
						m.status = task.Pending
					}
					_, err = w.become(t, id, task.Pending)
				case 4:
					if random.IntN(6) > 0 {
						continue // few tasks should end so early
					}
					what = "cancel"
					if ok = was == task.Pending || was == task.Paused || active || was == task.Aborted && !m.cancelled; ok {
						m.status, m.cancelled = task.Aborted, true
					}
					_, err = w.cancel(t, id)
				case 5:
					what = "retry"
					if ok = was == task.Failed || was == task.Aborted && !m.cancelled && m.due; ok {
						m.status, m.retries = task.Pending, 0
					}
					_, err = w.retry(t, id)
				case 6:
					if random.IntN(6) > 0 {
						continue
					}
					what = "archive"
					if ok = was == task.Completed || was == task.Failed || was == task.Aborted; ok {
						m.status = task.Archived
					}
					_, err = w.archive(t, id)
				case 7, 8, 9:
					attempt := []int{0, m.attempt, m.attempt, m.attempt - 1, m.attempt + 1}[random.IntN(5)]
					if attempt < 0 {
						continue
					}
					stale = attempt != 0 && (attempt != m.attempt || !active)
					ok = active && !stale
					switch random.IntN(3) {
					case 0:
						what = "complete"
						if ok {
							m.status = task.Completed
						}
						_, err = w.complete(t, id, attempt)
					case 1:
						final := random.IntN(3) == 0
						what = "fail"
						switch {
						case ok && !final && m.retries < maxRetries:
							m.status, m.retries, m.due = task.Aborted, m.retries+1, false
						case ok:
							m.status = task.Failed
						}
						_, err = w.fail(t, id, attempt, final)
					case 2:
						what = "progress"
						n := random.IntN(101)
						_, err = w.advance(t, id, attempt, task.Progress{Percent: &n})
					}
				case 10:
					w.Skew.Advance(time.Hour)
					m.due = true
					continue
				}
				status, isStatus := errors.AsType[*task.StatusError](err)
				_, isStale := errors.AsType[*task.StaleError](err)
				switch {
				case ok && err != nil, !ok && err == nil:
					t.Fatalf("%s of %+v: %v", what, before, err)
				case !ok && stale != isStale, !ok && !stale && !isStatus:
					t.Fatalf("%s of %+v: %v", what, before, err)
				case isStatus:
					want := legal[was]
					switch {
					case before.cancelled && was == task.Aborted:
						want = []task.Status{task.Archived}
					case was == task.Aborted && !before.due:
						want = []task.Status{task.Failed, task.Archived}
					}
					if status.Status != was || !slices.Equal(status.Legal, want) {
						t.Fatalf("%s of %+v: %+v", what, before, status)
					}
				}
				if m.status != was && !slices.Contains(legal[was], m.status) {
					t.Fatalf("%s: the model went from %s to %s", what, was, m.status)
				}
				is := w.get(t, id)
				if is.Status != m.status || is.Cancelled != m.cancelled || is.Attempt != m.attempt || is.Retries != m.retries {
					t.Fatalf("%s of %+v: %s cancelled=%v attempt=%d retries=%d, want %+v", what, before, is.Status, is.Cancelled, is.Attempt, is.Retries, m)
				}
				if (is.Agent != "") != (is.Status.Active() || is.CompletedAt != nil) {
					t.Fatalf("%s: a task that is %s has the agent %q", what, is.Status, is.Agent)
				}
				if ok {
					made++
				} else {
					refused++
				}
			}
			replays(t, w, id)
		}
		proof.Tell("%d made and %d refused, of %d tasks", made, refused, tasks)
	})
}

// changed logs a change of the status that the test made in place of the coordinator.
func (w world) changed(t testing.TB, id string, from task.Status) {
	t.Helper()
	var q struct{ Changed db.Query }
	dbtest.Load(t, "testdata/log", &q)
	if _, err := w.DB.Exec(t.Context(), w.Workspace, q.Changed, id, ids(), from); err != nil {
		t.Fatal(err)
	}
}

// replays applies a task's log, row by row, to a new task. The result is the task that is stored.
func replays(t *testing.T, w world, id string) {
	t.Helper()
	var at machine
	for _, e := range slices.Backward(w.logs(t, id)) {
		cancelled := strings.Contains(string(e.Details), `"cancelled":true`)
		switch {
		case e.Event == task.Created:
			at.status = e.To
		case e.Event == task.Recovery && cancelled:
			at.cancelled = true
		case e.Event != task.Transition:
		case e.From != at.status || !slices.Contains(legal[e.From], e.To):
			t.Fatalf("the log goes from %s to %s after %s", e.From, e.To, at.status)
		default:
			at.status, at.cancelled, at.attempt = e.To, at.cancelled || cancelled, max(at.attempt, e.Attempt)
			switch {
			case e.To == task.Aborted && !cancelled:
				at.retries++
			case e.To == task.Pending && (e.From == task.Failed || e.From == task.Aborted):
				at.retries = 0
			}
		}
	}
	is := w.get(t, id)
	if stored := (machine{is.Status, is.Cancelled, is.Attempt, is.Retries, false}); at != stored {
		t.Fatalf("the log replays to %+v, and stored is %+v", at, stored)
	}
	attempts, open := 0, 0
	if err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
		var n, version int
		var outcome string
		err := scan(&n, &outcome, &version)
		if attempts++; outcome == "" {
			open++
		}
		return err
	}, w.q.Attempts, id); err != nil || attempts != is.Attempt || (open == 1) != is.Status.Active() || open > 1 {
		t.Fatalf("a task that is %s in attempt %d has %d attempts, %d of them open: %v", is.Status, is.Attempt, attempts, open, err)
	}
}

// TestOneWinnerPerRace has 50 callers change one task at once: each change that was made follows the
// one before in the log, and a report is taken once.
func TestOneWinnerPerRace(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		proof := promise.Of(t, "R15", "50 callers who change one task at once, on "+w.Engine, "one winner per race, and the log replays to the stored state")
		other := w
		other.DB, _ = w.Open(t, 0)
		two := newWorld(t, other.Env)
		two.Env.DB = other.DB
		if s, err := task.New(other.DB, ids, func() float64 { return 0.5 }); err == nil {
			two.s = s
		}
		races, winners := promise.Figure(3, 300), 0
		for range races {
			id := w.create(t, draft("raced")).ID
			w.assign(t, id)
			w.changed(t, id, task.Pending)
			w.start(t, id)
			w.changed(t, id, task.Assigned)
			var wg sync.WaitGroup
			var mu sync.Mutex
			won := map[string]int{}
			for i := range 50 {
				from := []world{w, two}[i%2]
				wg.Go(func() {
					what := []string{"complete", "fail", "cancel", "pause", "archive"}[i/2%5]
					var err error
					switch what {
					case "complete":
						_, err = from.complete(t, id, 1)
					case "fail":
						_, err = from.fail(t, id, 1, true)
					case "cancel":
						_, err = from.cancel(t, id)
					case "pause":
						_, err = from.become(t, id, task.Paused)
					case "archive":
						_, err = from.archive(t, id)
					}
					_, status := errors.AsType[*task.StatusError](err)
					_, stale := errors.AsType[*task.StaleError](err)
					if err != nil && !status && !stale {
						t.Errorf("%s: %v", what, err)
					}
					if err == nil {
						mu.Lock()
						won[what]++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if n := won["complete"] + won["fail"]; n > 1 || won["cancel"] > 1 || won["archive"] > 1 {
				t.Errorf("winners: %v", won)
			}
			for _, n := range won {
				winners += n
			}
			replays(t, w, id)
			var outcomes []string
			if err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
				var n, version int
				var outcome string
				err := scan(&n, &outcome, &version)
				outcomes = append(outcomes, outcome)
				return err
			}, w.q.Attempts, id); err != nil || len(outcomes) != 1 || outcomes[0] == "" {
				t.Errorf("the attempts ended %q, %v", outcomes, err)
			}
		}
		proof.Tell("%d races, %d changes made", races, winners)
	})
}
