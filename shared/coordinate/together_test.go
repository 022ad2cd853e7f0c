package coordinate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// What a process that only runs cycles reads from its environment.
const (
	childEngine     = "LK_TEST_COORDINATE_ENGINE"
	childURL        = "LK_TEST_COORDINATE_URL"
	childWorkspaces = "LK_TEST_COORDINATE_WORKSPACES"
	childSkew       = "LK_TEST_COORDINATE_SKEW" // how far the database's clock is ahead
	childOnce       = "LK_TEST_COORDINATE_ONCE"
)

// child runs cycles over workspaces until it is killed, or once.
func child() error {
	skew := new(db.Skew)
	ahead, err := time.ParseDuration(os.Getenv(childSkew))
	if err != nil {
		return err
	}
	skew.Advance(ahead)
	var d *db.DB
	if os.Getenv(childEngine) == dbtest.OnSQLite {
		d, err = sqlite.Open(context.Background(), sqlite.Config{Path: os.Getenv(childURL), Schema: migrations.Latest(), Skew: skew})
	} else {
		d, err = postgres.Open(postgres.Config{URL: os.Getenv(childURL), MaxConns: 2, Schema: migrations.Latest(), Skew: skew})
	}
	if err != nil {
		return err
	}
	defer d.Close()
	c, err := newCoordinator(d)
	if err != nil {
		return err
	}
	if c.Budgets, err = budget.New(d, ids, time.Now); err != nil {
		return err
	}
	workspaces := strings.Split(os.Getenv(childWorkspaces), ",")
	fmt.Println("ready")
	for {
		rand.Shuffle(len(workspaces), func(i, j int) { workspaces[i], workspaces[j] = workspaces[j], workspaces[i] })
		for _, ws := range workspaces {
			if err := cycleOnce(c, db.Workspace(ws)); err != nil {
				fmt.Fprintln(os.Stderr, "cycle:", err)
			}
		}
		if os.Getenv(childOnce) != "" {
			return nil
		}
	}
}

// cycleOnce runs a cycle. It tries again while the lane is busy or the database is locked.
func cycleOnce(c *coordinate.Coordinator, ws db.Workspace) error {
	for try := 1; ; try++ {
		// A short deadline makes a short lease: a killed cycle blocks its workspace for seconds.
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
		_, err := c.Cycle(ctx, ws, "child")
		cancel()
		_, busy := errors.AsType[*lane.BusyError](err)
		switch {
		case busy && os.Getenv(childOnce) == "":
			return nil
		case err == nil || try == 20 || !busy && !errors.Is(err, db.ErrUnavailable):
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// spawn starts a process that runs cycles. It returns when the process is ready.
func (w world) spawn(t testing.TB, workspaces []db.Workspace, once bool) *exec.Cmd {
	t.Helper()
	names := make([]string, len(workspaces))
	for i, ws := range workspaces {
		names[i] = string(ws)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEngine+"="+w.Engine, childURL+"="+w.URL, childWorkspaces+"="+strings.Join(names, ","), childSkew+"="+w.Skew.Offset().String())
	if once {
		cmd.Env = append(cmd.Env, childOnce+"=1")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// kill ends a process at once, and waits for its end.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// TestTwoCoordinatorsUnderKills has two processes run cycles over all workspaces while one of them is
// killed again and again, and agents claim and complete. An observer looks all the time.
func TestTwoCoordinatorsUnderKills(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		many, kills, each := promise.Figure(4, 200), promise.Figure(6, 200), promise.Figure(12, 30)
		if w.Engine == dbtest.OnSQLite {
			many, kills = promise.Figure(2, 20), promise.Figure(3, 50) // one writer in all
		}
		p := promise.Of(t, "R3", fmt.Sprintf("two coordinators over %d workspaces on %s, %d kills", many, w.Engine, kills),
			"no task assigned twice, no agent over its limit, no budget overspent at any instant")
		random := rand.New(rand.NewPCG(promise.Seed(t), 3))
		w.c.Budgets = budgets(t, w.DB)
		var all []db.Workspace
		agents := map[db.Workspace][]string{}
		for range many {
			one := w
			one.Workspace = newWorkspace(t, w)
			all = append(all, one.Workspace)
			one.allocate(t, 500)
			drafts := []agent.Agent{{Name: "a", MaxConcurrentTasks: 2, Capabilities: []string{"x"}}, {Name: "b"}, {Name: "c"}}
			for i := range drafts { // they send no heartbeat, however long it takes
				drafts[i].IntervalSeconds, drafts[i].StaleSeconds = agent.MaxInterval, agent.MaxStale
			}
			agents[one.Workspace] = one.register(t, drafts...)
			tasks := make([]task.Task, each)
			for i := range tasks {
				tasks[i] = costs(fmt.Sprint(i), 150+50*(i%3), 1+i%10)
			}
			one.create(t, tasks...)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { w.observe(t, all, stop) })
		two := []*exec.Cmd{w.spawn(t, all, false), w.spawn(t, all, false)}
		defer func() { kill(two[0]); kill(two[1]) }()
		done := make(chan struct{})
		var working sync.WaitGroup
		completed := make([]int, len(all))
		for i, ws := range all {
			working.Go(func() {
				completed[i] = w.work(t, ws, agents[ws], each, time.Now().Add(time.Duration(promise.Figure(5, 40))*time.Minute))
			})
		}
		go func() { working.Wait(); close(done) }()
		killed := 0
		for over := false; !over || killed < kills; {
			i := random.IntN(2)
			select {
			case <-time.After(time.Duration(20+random.IntN(200)) * time.Millisecond):
			case <-done:
				over = true
			}
			if killed < kills {
				kill(two[i])
				two[i] = w.spawn(t, all, false)
				killed++
			}
		}
		close(stop)
		wg.Wait()
		sum := 0
		for i, ws := range all {
			sum += completed[i]
			one := w
			one.Workspace = ws
			one.sound(t)
		}
		p.Tell("%d kills, %d of %d tasks completed once", killed, sum, many*each)
		if sum != many*each {
			t.Errorf("%d of %d tasks were completed", sum, many*each)
		}
	})
}

// work claims and completes tasks as the agents of a workspace, until it has completed all.
func (w world) work(t testing.TB, ws db.Workspace, agents []string, all int, until time.Time) (completed int) {
	w.Workspace = ws
	ctx := context.Background()
	open := map[string]task.Task{}
	for completed < all && time.Now().Before(until) {
		idle := true
		for _, a := range agents {
			is, ok, err := w.c.Claim(ctx, ws, a, "")
			if errors.Is(err, db.ErrUnavailable) {
				continue // SQLite's file was locked for too long: an agent asks again
			}
			if err != nil {
				t.Error(err)
				return completed
			}
			if ok {
				if before, twice := open[is.ID]; twice {
					t.Errorf("task %s was claimed in attempts %d and %d", is.ID, before.Attempt, is.Attempt)
				}
				open[is.ID], idle = is, false
			}
		}
		for id, is := range open {
			err := w.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.tasks.Complete(ctx, tx, task.Report{Task: id, Attempt: is.Attempt, Actor: "agent:" + is.Agent}, []byte(`{}`), "")
				return err
			})
			if errors.Is(err, db.ErrUnavailable) {
				continue
			}
			if err != nil {
				t.Error(err)
				return completed
			}
			delete(open, id)
			completed, idle = completed+1, false
		}
		if idle {
			time.Sleep(5 * time.Millisecond) // other agents and coordinators have what is due
		}
	}
	return completed
}

// observe looks for what must never be, until stop is closed.
func (w world) observe(t testing.TB, all []db.Workspace, stop chan struct{}) {
	for {
		for _, ws := range all {
			var doubled, overloaded, overspent int
			var b db.Batch
			b.One([]any{&doubled}, w.q.Doubled)
			b.One([]any{&overloaded}, w.q.Overloaded)
			b.One([]any{&overspent}, w.q.Overspent)
			if err := w.DB.Read(context.Background(), ws, &b); err != nil && !errors.Is(err, db.ErrUnavailable) {
				t.Error(err)
				return
			}
			if doubled+overloaded+overspent > 0 {
				t.Errorf("seen: %d doubled, %d overloaded, %d overspent", doubled, overloaded, overspent)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}
}

// TestBackoffsSurviveDeath fails tasks, then lets time pass minute by minute. In each minute a new
// process runs a cycle, and often it is killed somewhere in it. Each task is put back at its time: never
// before, and by the first cycle after that ends.
func TestBackoffsSurviveDeath(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		n := promise.Figure(50, 500)
		if testing.Short() {
			n = 10
		}
		p := promise.Of(t, "R16", fmt.Sprintf("%d tasks on %s, their coordinator killed between failure and retry", n, w.Engine), "each retried at its time")
		random := rand.New(rand.NewPCG(promise.Seed(t), 16))
		drafts := make([]task.Task, n)
		for i := range drafts {
			drafts[i] = draft(fmt.Sprint(i))
			drafts[i].BackoffSeconds = 30 + random.IntN(600)
		}
		agents := w.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 1000})
		of := w.create(t, drafts...)
		due := map[string]time.Time{}
		for range of {
			is := w.claim(t, agents[0])
			w.tx(t, func(ctx context.Context, tx *db.Tx) error {
				is, err := w.tasks.Fail(ctx, tx, task.Report{Task: is.ID, Attempt: 1, Actor: "agent:a"}, task.Failure{Error: "it broke"})
				if err == nil {
					due[is.ID] = *is.NextAttemptAt
				}
				return err
			})
		}
		w.exec(t, w.q.Disable, agents[0]) // what is put back stays PENDING
		killed, checked, back := 0, 0, map[string]bool{}
		for len(back) < n && checked+killed < 100 {
			w.Skew.Advance(time.Minute)
			before := w.now(t)
			cmd := w.spawn(t, []db.Workspace{w.Workspace}, true)
			whole := random.IntN(2) == 0
			if whole {
				if err := cmd.Wait(); err != nil {
					t.Fatal(err)
				}
				checked++
			} else {
				time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond) // anywhere in the cycle
				kill(cmd)
				killed++
			}
			after := w.now(t)
			for id, at := range due {
				is := w.get(t, id)
				switch {
				case is.Status == task.Pending && at.After(after):
					t.Errorf("task %s was put back %s too early", id, at.Sub(after))
				case is.Status == task.Aborted && whole && at.Before(before):
					t.Errorf("task %s was due %s ago, and a cycle has ended since", id, before.Sub(at))
				}
				if is.Status == task.Pending {
					back[id] = true
				}
			}
		}
		p.Tell("%d tasks put back at their time, %d of %d processes killed", len(back), killed, killed+checked)
		if len(back) != n {
			t.Errorf("%d of %d tasks were put back", len(back), n)
		}
	})
}

// TestRandomGraphsRunInOrder runs random graphs of tasks to their end, with cycles that came in past the
// refusal. No task begins before all it depends on is completed, every cycle is found, and the rest ends.
func TestRandomGraphsRunInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		graphs, most := promise.Figure(5, 1000), promise.Figure(40, 200)
		if w.Engine != dbtest.OnPostgres {
			graphs = promise.Figure(3, 200)
		}
		p := promise.Of(t, "R17", fmt.Sprintf("%d random graphs of at most %d tasks run to their end on %s", graphs, most, w.Engine), "none early; every cycle found")
		random := rand.New(rand.NewPCG(promise.Seed(t), 17))
		ran, inCycles := 0, 0
		for g := range graphs {
			one := w
			one.Workspace = newWorkspace(t, w)
			n := 2 + random.IntN(most-1)
			a := one.register(t, agent.Agent{Name: "a", MaxConcurrentTasks: 1000})[0]
			drafts := make([]task.Task, n)
			for i := range drafts {
				drafts[i] = draft(strconv.Itoa(i))
			}
			of := one.create(t, drafts...)
			on := make([][]bool, n)
			for i := range on {
				on[i] = make([]bool, n)
			}
			var edges db.Batch
			for k := range random.IntN(3*n) + 2 {
				i, j := random.IntN(n), random.IntN(n)
				if g == 0 && k < 2 {
					i, j = k, 1-k // the first graph has a cycle
				} else if back := random.IntN(4) == 0; i == j || i < j != back || on[i][j] {
					continue
				}
				on[i][j] = true
				edges.Exec(one.q.Edge, of[i], of[j])
			}
			if err := one.DB.Do(t.Context(), one.Workspace, &edges); err != nil {
				t.Fatal(err)
			}
			reach := closure(on)
			completed := map[string]bool{}
			for range n + 1 {
				one.exec(t, one.q.BeatAll)
				one.cycle(t)
				idle := true
				for {
					is, ok, err := one.c.Claim(t.Context(), one.Workspace, a, "")
					if err != nil {
						t.Fatal(err)
					}
					if !ok {
						break
					}
					i := slices.Index(of, is.ID)
					for j := range n {
						if on[i][j] && !completed[of[j]] {
							t.Errorf("task %d began before task %d, on which it depends, was completed", i, j)
						}
					}
					if err := one.complete(t, is.ID, is.Attempt); err != nil {
						t.Fatal(err)
					}
					completed[is.ID], idle = true, false
				}
				if idle {
					break
				}
			}
			for i := range n {
				ran++
				want := ""
				if slices.ContainsFunc(fromTo(n), func(j int) bool { return reach[i][j] && reach[j][j] }) {
					want = "dependency_failed"
				}
				if reach[i][i] {
					want = "dependency_cycle"
					inCycles++
				}
				is := one.get(t, of[i])
				if is.LastError != want || (want == "") != (is.Status == task.Completed) {
					t.Errorf("task %d is %s: %q, want %q", i, is.Status, is.LastError, want)
				}
			}
			one.sound(t)
		}
		p.Tell("%d tasks, %d of them in cycles", ran, inCycles)
	})
}

func fromTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// closure returns what can be reached from each node in one step or more.
func closure(on [][]bool) [][]bool {
	reach := make([][]bool, len(on))
	for i := range on {
		reach[i] = slices.Clone(on[i])
	}
	for k := range on {
		for i := range on {
			if reach[i][k] {
				for j := range on {
					reach[i][j] = reach[i][j] || reach[k][j]
				}
			}
		}
	}
	return reach
}
