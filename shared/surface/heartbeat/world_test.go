package heartbeat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/app/wire/wiretest"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

// newHeartbeat returns the heartbeat of a process that has few skills: those of objectives and memories,
// and more.
func newHeartbeat(t testing.TB, d *db.DB, model llm.Model, more ...skill.Skill) *heartbeat.Heartbeat {
	t.Helper()
	all := wiretest.New(t, d, wiretest.Log(t))
	all.Reason.Model = model
	set := must(skill.NewSet(slices.Concat(must(objective.Skills(all.Objectives))(t), must(memory.Skills(all.Memories))(t),
		[]skill.Skill{must(skill.QueryActivity(all.Activity, time.Now))(t)}, more)...))(t)
	all.Registry = must(skill.NewRegistry(d, ids, set, nil))(t)
	all.Heals = must(heal.New(d, ids, all.Registry, all.Automations))(t)
	return all.Heartbeat
}

// world is a new workspace on one engine, with a heartbeat.
type world struct {
	*heartbeat.Heartbeat
	env       dbtest.Env
	Workspace db.Workspace
	Skew      *db.Skew
	q         struct {
		Executions, Story, PastActivity, PastExecutions, PastEvents, PastOpen, ManyWorkspaces, Served                      db.Query
		FutureInput, FutureStep, Attempts, Settings, Rows, Connections, Unsettled, BreakSchedule, PastDelivery, Deliveries db.Query
	}
}

// newWorld returns a world whose beats neither reflect nor remember.
func newWorld(t testing.TB, e dbtest.Env, model llm.Model, more ...skill.Skill) *world {
	t.Helper()
	w := newProcess(t, e, model, more...)
	w.set(t, `{}`)
	return w
}

func newProcess(t testing.TB, e dbtest.Env, model llm.Model, more ...skill.Skill) *world {
	t.Helper()
	w := &world{Heartbeat: newHeartbeat(t, e.DB, model, more...), env: e, Workspace: e.Workspace, Skew: e.Skew}
	dbtest.Load(t, "testdata", &w.q)
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, e dbtest.Env)) {
	t.Helper()
	dbtest.Both(t, fn)
}

// another returns the same world as another process sees it.
func (w *world) another(t testing.TB, model llm.Model, more ...skill.Skill) *world {
	t.Helper()
	e := w.env
	if e.Engine != dbtest.OnSQLite { // only one process opens the file
		e.DB, e.Skew = e.Open(t, 0)
		e.Skew.Advance(w.Skew.Offset())
	}
	return newProcess(t, e, model, more...)
}

// think sets the model of the world.
func (w *world) think(model llm.Model) { w.Reason.Model = model }

// beat runs one tick and fails the test on an error.
func (w *world) beat(t testing.TB, tick heartbeat.Tick) heartbeat.Report {
	t.Helper()
	tick.Workspace = w.Workspace
	r, err := w.Run(t.Context(), tick)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// slot returns the n-th slot of the tests' schedule.
func slot(n int) heartbeat.Tick {
	return heartbeat.Tick{Slot: time.Date(2020, 2, 29, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * 30 * time.Minute)}
}

func (w *world) addObjective(t testing.TB, title string, priority int) string {
	t.Helper()
	var b db.Batch
	id := w.Objectives.Create(&b, objective.Objective{Title: title, Priority: priority, DoneCriterion: "it is there", CreatedBy: "test"})
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return id
}

// plan gives an objective a plan with one step for each title.
func (w *world) plan(t testing.TB, id string, titles ...string) string {
	t.Helper()
	request := lane.Request{Workspace: w.Workspace, Lane: lane.Objective(id), Holder: "test"}
	err := w.Lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
		return w.Lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
			steps := make([]objective.Step, len(titles))
			for i, title := range titles {
				steps[i] = objective.Step{Title: title}
			}
			_, err := w.Objectives.Plan(ctx, tx, id, steps)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w *world) objective(t testing.TB, id string) objective.Objective {
	t.Helper()
	return must(w.Objectives.Get(context.Background(), w.Workspace, id))(t)
}

func (w *world) set(t testing.TB, settings string) {
	t.Helper()
	quiet := `{"beat_memories": 0, "reflect_hours": 0`
	if settings != `{}` {
		quiet += ","
	}
	must(w.DB.Exec(t.Context(), "", w.q.Settings, w.Workspace, strings.Replace(settings, "{", quiet, 1)))(t)
}

func (w *world) acquire(t testing.TB, name lane.Name) *lane.Hold {
	t.Helper()
	return must(w.Lanes.Acquire(context.Background(), lane.Request{Workspace: w.Workspace, Lane: name, Holder: "ada at her console"}))(t)
}

func (w *world) release(t testing.TB, h *lane.Hold) {
	t.Helper()
	if err := w.Lanes.Release(context.Background(), h); err != nil {
		t.Fatal(err)
	}
}

// force releases a lane by force, as an operator does.
func (w *world) force(t testing.TB, name lane.Name) {
	t.Helper()
	err := w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.Lanes.ForceRelease(ctx, tx, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// want records that somebody waits for a lane.
func (w *world) want(t testing.TB, name lane.Name) {
	t.Helper()
	info := must(w.Lanes.Peek(context.Background(), w.Workspace, name))(t)
	if err := w.Lanes.Want(context.Background(), w.Workspace, info, "ada"); err != nil {
		t.Fatal(err)
	}
}

// mustBeFree fails if any lane of the workspace is held.
func (w *world) mustBeFree(t testing.TB) {
	t.Helper()
	for _, i := range must(w.Lanes.List(context.Background(), w.Workspace, 100))(t) {
		t.Errorf("lane %s is held by %s", i.Lane, i.Holder)
	}
}

// executionRow is a row of executions with the columns that the tests use.
type executionRow struct {
	ID, Subject, Slot string
	Status            execution.Status
	Attempt           int
	Trace             trace.ID
	Parent, Error     string
	Tokens            int64
}

func (w *world) executions(t testing.TB) (out []executionRow) {
	t.Helper()
	err := w.DB.Each(context.Background(), w.Workspace, func(scan db.Scan) error {
		var e executionRow
		err := scan(&e.ID, &e.Subject, &e.Slot, &e.Status, &e.Attempt, &e.Trace, &e.Parent, &e.Error, &e.Tokens)
		out = append(out, e)
		return err
	}, w.q.Executions)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ofSubject returns the executions of one subject, oldest first.
func (w *world) ofSubject(t testing.TB, subject lane.Name) (out []executionRow) {
	t.Helper()
	for _, e := range w.executions(t) {
		if e.Subject == string(subject) {
			out = append(out, e)
		}
	}
	return out
}

// the returns the only execution of one subject.
func (w *world) the(t testing.TB, subject lane.Name) executionRow {
	t.Helper()
	all := w.ofSubject(t, subject)
	if len(all) != 1 {
		t.Fatalf("%s has %d executions: %+v", subject, len(all), all)
	}
	return all[0]
}

// told is one line of the activity log.
type told struct {
	Skill     string
	Status    activity.Status
	Error     string
	Execution string
}

// story returns the activity log of a trace, through the view that dashboards read.
func (w *world) story(t testing.TB, id string) (out []told) {
	t.Helper()
	err := w.DB.Each(context.Background(), w.Workspace, func(scan db.Scan) error {
		var l told
		err := scan(&l.Skill, &l.Status, &l.Error, &l.Execution)
		out = append(out, l)
		return err
	}, w.q.Story, id)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// skills returns the skills of a story in order, without the model calls.
func (w *world) skills(t testing.TB, id string) string {
	t.Helper()
	var names []string
	for _, l := range w.story(t, id) {
		if l.Skill != activity.ModelCall {
			names = append(names, l.Skill)
		}
	}
	return strings.Join(names, " ")
}

func (w *world) actions(t testing.TB, f activity.Filter) []activity.Entry {
	t.Helper()
	f.Limit = 200
	return must(w.Activity.List(context.Background(), w.Workspace, f))(t).Items
}

func (w *world) journal(t testing.TB, id string) []execution.Entry {
	t.Helper()
	return must(w.Runs.Journal(context.Background(), w.Workspace, id, 0))(t)
}

// A pilot is a model that answers through a function.
type pilot func(ctx context.Context, task task) (llmtest.Step, error)

// task is a heartbeat's request to its model.
type task struct {
	llm.Request
	Kind      string // plan or advance
	Objective struct{ ID, Title string }
	Step      struct {
		Number int
		Title  string
	}
	Answers int // the number of answers that the model has given
}

func (pilot) Name() string { return "pilot" }

func (p pilot) Generate(ctx context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	tk := task{Request: req}
	_, tk.Kind, _ = strings.Cut(strings.TrimSpace(req.System), "\ntask: ")
	if err := json.Unmarshal([]byte(req.Messages[0].Text), &tk); err != nil {
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: "pilot", Err: err}
	}
	for _, m := range req.Messages {
		if m.Role == llm.RoleAssistant {
			tk.Answers++
		}
	}
	step, err := p(ctx, tk)
	if err != nil {
		return llm.Response{}, err
	}
	return step(req)
}

// obedient does each task in two answers. It makes plans of two steps and completes every step at
// once. The step "close" completes the objective.
func obedient(_ context.Context, tk task) (llmtest.Step, error) {
	id := tk.Objective.ID
	switch {
	case tk.Answers > 0:
		return llmtest.Say("done"), nil
	case tk.Kind == "plan":
		return llmtest.Call("plan_objective", fmt.Sprintf(`{"objectiveId": %q, "steps": [{"title": "work"}, {"title": "close"}]}`, id)), nil
	case tk.Step.Title == "close":
		return llmtest.Call("advance_plan", fmt.Sprintf(`{"objectiveId": %q, "step": %d, "result": "r"}`, id, tk.Step.Number),
			"complete_objective", fmt.Sprintf(`{"objectiveId": %q, "summary": "s"}`, id)), nil
	}
	return llmtest.Call("advance_plan", fmt.Sprintf(`{"objectiveId": %q, "step": %d, "result": "r"}`, id, tk.Step.Number)), nil
}

// first calls do before a model's first answer to a kind of task.
func first(kind string, do func()) pilot {
	done := false
	return func(ctx context.Context, tk task) (llmtest.Step, error) {
		if tk.Kind == kind && !done {
			done = true
			do()
		}
		return obedient(ctx, tk)
	}
}

// idle returns a model that fails the test when it is called.
func idle(t testing.TB) llm.Model { return llmtest.Script(t) }

var errDied = errors.New("the process died")
