package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// A receiver that hangs delays neither the ticker nor another workspace.
func TestAWorkspaceThatHangsHoldsNobodyUp(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, _ := newAgent(t, e)
	other := dbtest.NewWorkspace(t, e.DB)
	for _, ws := range []db.Workspace{e.Workspace, other} {
		var b db.Batch
		a.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: "late", Key: "a", Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
		if err := e.DB.Do(t.Context(), ws, &b); err != nil {
			t.Fatal(err)
		}
	}
	h := hanging{on: e.Workspace, began: make(chan db.Workspace, 9), end: make(chan struct{})}
	a.Sender.Handlers["late"] = h
	var working sync.WaitGroup
	background := func(fn func(context.Context)) { working.Go(func() { fn(t.Context()) }) }
	a.Tender.All(t.Context(), background)
	if first, second := <-h.began, <-h.began; first == second {
		t.Errorf("workspace %s alone was sent for", first)
	}
	a.Tender.All(t.Context(), background) // it leaves rows alone that are being sent
	close(h.end)
	working.Wait()
	if len(h.began) > 0 {
		t.Error("a row was handled twice")
	}
}

// TestASweepThatFailsLeavesTheOthers: rate limits are deleted also where reservations can't be.
func TestASweepThatFailsLeavesTheOthers(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		a, _ := newAgent(t, e)
		limits, err1 := ratelimit.New(e.DB)
		_, _, err2 := limits.Take(t.Context(), e.Workspace, "api:ada", 1, ratelimit.Limit{PerSecond: 1, Burst: 2})
		closed, err3 := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "closed.db")})
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		var err error
		a.Budgets, err = budget.New(closed, uuid.NewString, time.Now)
		if err = errors.Join(err, closed.Close()); err != nil {
			t.Fatal(err)
		}
		e.Skew.Advance(2 * time.Hour)
		if err := a.Heartbeat.Sweep(t.Context(), e.Workspace); err == nil {
			t.Error("no error tells of the reservations")
		}
		var q struct{ Limits db.Query }
		err = db.Load(fstest.MapFS{"t.sql": {Data: []byte(`
-- name: Limits
SELECT count(*) FROM rate_limits WHERE workspace_id = $1;
`)}}, &q)
		n := -1
		if err = errors.Join(err, e.DB.One(t.Context(), e.Workspace, []any{&n}, q.Limits)); err != nil || n != 0 {
			t.Errorf("%d rate limits are left, %v", n, err)
		}
	})
}

type hanging struct {
	on    db.Workspace
	began chan db.Workspace
	end   chan struct{}
}

func (h hanging) Handle(_ context.Context, c outbox.Claimed) error {
	h.began <- c.Workspace
	if c.Workspace == h.on {
		<-h.end
	}
	return nil
}

// recorder records the workspaces whose rows were sent, and asks for a retry after a minute. The
// first call waits until a second one has come.
type recorder struct {
	mu   sync.Mutex
	sent []db.Workspace
	two  chan struct{}
	stop func(n int)
}

func (r *recorder) Handle(ctx context.Context, c outbox.Claimed) error {
	r.mu.Lock()
	r.sent = append(r.sent, c.Workspace)
	n := len(r.sent)
	if n == 2 {
		close(r.two)
	}
	r.mu.Unlock()
	if n == 1 {
		select {
		case <-r.two:
		case <-ctx.Done():
		}
	}
	r.stop(n)
	return outbox.LaterIn(time.Minute, errors.New("not yet"))
}

// TestARoundBeginsBehindTheLast: several workspaces are tended at once until the time is up. The
// next round begins with those that this round did not reach.
func TestARoundBeginsBehindTheLast(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, _ := newAgent(t, e)
	const all, cut, atOnce = 20, 6, 4
	for range all {
		var b db.Batch
		a.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: "late", Key: "a", Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
		if err := e.DB.Do(t.Context(), dbtest.NewWorkspace(t, e.DB), &b); err != nil {
			t.Fatal(err)
		}
	}
	round := func(ctx context.Context, stop func(n int)) []db.Workspace {
		t.Helper()
		e.Skew.Advance(2 * time.Minute)
		r := &recorder{two: make(chan struct{}), stop: stop}
		a.Sender.Handlers["late"] = r
		a.Tender.All(ctx, func(fn func(context.Context)) { fn(t.Context()) })
		return r.sent
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := round(ctx, func(n int) {
		if n == cut {
			cancel()
		}
	})
	if len(first) < cut || len(first) >= cut+atOnce {
		t.Errorf("when the time was up %d workspaces had been reached", len(first))
	}
	second := round(t.Context(), func(int) {})
	if len(second) != all {
		t.Fatalf("the next round reached %d workspaces", len(second))
	}
	for i, ws := range second[:all-len(first)-atOnce] {
		if slices.Contains(first, ws) {
			t.Errorf("the next round's workspace %d is one of the last round's", i)
		}
	}
}

// counter counts rows. If it names a workspace, it counts the rows of this one only, because other
// tests use the same database.
type counter struct {
	ws      db.Workspace
	handled int
}

func (c *counter) Handle(_ context.Context, row outbox.Claimed) error {
	if c.ws == "" || c.ws == row.Workspace {
		c.handled++
	}
	return nil
}

// TestMoreThanARoundIsSent: one call sends more rows than fit into one round.
func TestMoreThanARoundIsSent(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, _ := newAgent(t, e)
	const rows = 120
	for i := range rows {
		var b db.Batch
		a.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: "late", Key: strconv.Itoa(i), Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
		if err := e.DB.Do(t.Context(), e.Workspace, &b); err != nil {
			t.Fatal(err)
		}
	}
	sent := make(chan struct{}, rows)
	a.Sender.Handlers["late"] = handler(func() { sent <- struct{}{} })
	a.Tender.Tend(t.Context(), e.Workspace)
	if n := len(sent); n != rows {
		t.Errorf("%d of %d rows were sent", n, rows)
	}
}

type handler func()

func (h handler) Handle(context.Context, outbox.Claimed) error { h(); return nil }

// TestThreadsThatCannotBeSweptHoldNothingUp: due messages are sent although the sweep fails.
func TestThreadsThatCannotBeSweptHoldNothingUp(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, logs := newAgent(t, e)
	var b db.Batch
	a.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: "late", Key: "a", Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
	away, err := db.Parse(fstest.MapFS{"away.sql": {Data: []byte("-- name: Away\n-- global: it is no row's\nALTER TABLE threads RENAME TO away;\n")}})
	if err == nil {
		_, err = e.DB.Exec(t.Context(), "", away[0])
	}
	if err := errors.Join(err, e.DB.Do(t.Context(), e.Workspace, &b)); err != nil {
		t.Fatal(err)
	}
	var c counter
	a.Sender.Handlers["late"] = &c
	a.Tender.Tend(t.Context(), e.Workspace)
	if c.handled != 1 || !strings.Contains(logs.String(), "sweep threads") {
		t.Errorf("handled %d times, the log says %s", c.handled, logs)
	}
}

// eachAlone runs fn on every engine in a database without the workspaces of other tests, whose work the cycle
// would do.
func eachAlone(t *testing.T, fn func(t *testing.T, e dbtest.Env)) {
	t.Helper()
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) { fn(t, dbtest.Alone(t, engine)) })
	}
}

// tendAll runs one cycle, including its work in the background.
func tendAll(t *testing.T, a *wire.Surfaces) {
	t.Helper()
	var working sync.WaitGroup
	a.Tender.All(t.Context(), func(fn func(context.Context)) { working.Go(func() { fn(t.Context()) }) })
	working.Wait()
}

// TestACycleExpiresAnApprovalAndItsRunGoesOn: an approval expires without an answer and without a
// heartbeat, and its execution continues.
func TestACycleExpiresAnApprovalAndItsRunGoesOn(t *testing.T) {
	eachAlone(t, func(t *testing.T, e dbtest.Env) {
		a, _ := newAgent(t, e)
		goesOn := counter{ws: e.Workspace}
		a.Sender.Handlers[turn.Topic] = &goesOn
		exec := uuid.NewString()
		request := lane.Request{Workspace: e.Workspace, Lane: lane.Execution(exec), Holder: "test"}
		err := a.Lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
			return a.Lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
				_, err := a.Approvals.Request(ctx, tx, approval.Approval{
					Skill: "note", Arguments: json.RawMessage(`{}`), Execution: exec, Call: "1.1", Subject: lane.Execution(exec),
					Agent: "flowpilot", Surface: trace.Operate, Trace: "op_0mh8c1v2q_a7x2p1k9d4",
				})
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if tendAll(t, a); goesOn.handled != 0 {
			t.Error("it goes on before its time")
		}
		e.Skew.Advance(73 * time.Hour)
		if tendAll(t, a); goesOn.handled != 1 {
			t.Errorf("after its time it goes on %d times", goesOn.handled)
		}
		if tendAll(t, a); goesOn.handled != 1 {
			t.Errorf("it goes on %d times", goesOn.handled)
		}
	})
}

// TestAParentGoesOnWhenItsChildHasDied: the parent continues when the child's time limit has
// passed, and ends within its own.
func TestAParentGoesOnWhenItsChildHasDied(t *testing.T) {
	eachAlone(t, func(t *testing.T, e dbtest.Env) {
		a, _ := newAgent(t, e)
		begin := func(parent string, timeout time.Duration) string {
			t.Helper()
			x := execution.Execution{ID: uuid.NewString(), Agent: "a", Surface: trace.Worker, Trace: "wk_0mh8c1v2q_a7x2p1k9d4", Parent: parent, Timeout: timeout}
			err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := a.Runs.Begin(ctx, tx, x, parent != "")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return x.ID
		}
		is := func(id string) execution.Status {
			t.Helper()
			x, err := a.Runs.Get(t.Context(), e.Workspace, id)
			if err != nil {
				t.Fatal(err)
			}
			return x.Status
		}
		parent := begin("", 0)
		child := begin(parent, 10*time.Minute)
		impatient := begin("", 20*time.Minute)
		forgotten := begin(impatient, 0)

		e.Skew.Advance(9 * time.Minute)
		if tendAll(t, a); is(child) != execution.Running || is(parent) != execution.Waiting {
			t.Errorf("in its time the child is %s, the parent %s", is(child), is(parent))
		}
		e.Skew.Advance(2 * time.Minute)
		if tendAll(t, a); is(child) != execution.Stalled || is(parent) != execution.Running || is(impatient) != execution.Waiting {
			t.Errorf("after it the child is %s, the parent %s, another %s", is(child), is(parent), is(impatient))
		}
		e.Skew.Advance(10 * time.Minute)
		if tendAll(t, a); is(impatient) != execution.Stalled || is(forgotten) != execution.Running || is(parent) != execution.Running {
			t.Errorf("a parent with a time of its own is %s, its child %s, the first parent %s", is(impatient), is(forgotten), is(parent))
		}
	})
}

// TestWhatIsHeardBelowIsHeard: a workspace is not due because of a silent parent while a grandchild
// of it works.
func TestWhatIsHeardBelowIsHeard(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		a, _ := newAgent(t, e)
		parent := ""
		for _, timeout := range []time.Duration{10 * time.Minute, 10 * time.Minute, time.Hour} {
			x := execution.Execution{ID: uuid.NewString(), Agent: "a", Surface: trace.Worker, Trace: "wk_0mh8c1v2q_a7x2p1k9d4", Parent: parent, Timeout: timeout}
			e.Skew.Advance(5 * time.Minute)
			err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := a.Runs.Begin(ctx, tx, x, parent != "")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			parent = x.ID
		}
		for _, at := range []struct {
			after time.Duration
			due   bool
		}{{9 * time.Minute, false}, {2 * time.Minute, true}} {
			e.Skew.Advance(at.after)
			due, _, err := a.Workspaces.Due(t.Context())
			if err != nil || slices.Contains(due, e.Workspace) != at.due {
				t.Errorf("%s later it is due: %t, %v", at.after, !at.due, err)
			}
		}
	})
}

// TestTendingDeletesTheRestOfAWorkspace: a process that began to delete a workspace died after it had closed it.
func TestTendingDeletesTheRestOfAWorkspace(t *testing.T) {
	eachAlone(t, func(t *testing.T, e dbtest.Env) {
		a, _ := newAgent(t, e)
		other := dbtest.NewWorkspace(t, e.DB)
		w, err := a.Workspaces.Get(t.Context(), other)
		if err == nil {
			err = e.DB.Tx(t.Context(), other, func(ctx context.Context, tx *db.Tx) error { return a.Workspaces.Close(ctx, tx, w) })
		}
		if err != nil {
			t.Fatal(err)
		}
		tendAll(t, a)
		if _, closed, err := a.Workspaces.Due(t.Context()); err != nil || len(closed) > 0 {
			t.Errorf("left are %v (%v)", closed, err)
		}
	})
}

// TestAnIdleCycleCostsTheSame: an idle cycle costs the same for any number of workspaces.
func TestAnIdleCycleCostsTheSame(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		a, _ := newAgent(t, e)
		a.Sender.Handlers = map[string]outbox.Handler{"none": &counter{}} // ignores other due rows
		var cost []db.Stats
		for range 2 {
			before := e.DB.Stats()
			due, _, err := a.Workspaces.Due(t.Context())
			if err != nil || slices.Contains(due, e.Workspace) {
				t.Fatalf("%v, %v", due, err)
			}
			if e.Engine == dbtest.OnSQLite { // no other test has workspaces in it
				tendAll(t, a)
			}
			cost = append(cost, e.DB.Stats().Sub(before))
			for range 20 {
				dbtest.NewWorkspace(t, e.DB)
			}
		}
		if cost[0] != cost[1] || cost[0].Statements > 2 {
			t.Errorf("it costs %+v, with 20 workspaces more %+v", cost[0], cost[1])
		}
	})
}

func newAgent(t *testing.T, e dbtest.Env) (*wire.Surfaces, *told) {
	t.Helper()
	cfg, err := app.LoadConfig([]string{"SECRET_KEY_FILE=" + filepath.Join(t.TempDir(), "key"), "LLM_PROVIDER=demo"})
	if err != nil {
		t.Fatal(err)
	}
	logs := new(told)
	core := app.NewCore(e.DB, cfg, app.NewLogger(logs, cfg, nil), func(context.Context) (awssdk.Config, error) { return awssdk.Config{}, errors.New("no AWS here") })
	a, err := wire.New(core, "test")
	if err != nil {
		t.Fatal(err)
	}
	return a, logs
}
