package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/infra/rig/outside"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// shift is the built worker, the built coordinator that starts it, and an agent that it works for. Only
// the worker has fault points. Its tasks make notes, one in each step.
type shift struct {
	*crew
	worker  *rig.Function
	outside *outside.World
	second  *pgx.Conn // for what happens at fault points
	killed  atomic.Int32
	made    int
}

func newShift(t *testing.T, engine string, timeout time.Duration) *shift {
	t.Helper()
	s := &shift{crew: &crew{world: newDatabase(t), agent: uuid.NewString()}, outside: outside.Start()}
	t.Cleanup(s.outside.Close)
	var err error
	if s.second, err = pgx.Connect(t.Context(), superuser(t, s.owner)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.second.Close(t.Context()) })
	if s.faults, err = rig.StartFaults(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.faults.Close)
	aws, err := rig.StartAWS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(aws.Close)
	at, err := url.Parse(s.outside.URL)
	if err != nil {
		t.Fatal(err)
	}
	env := rig.Env(s.faults.Env(), aws.Env(), map[string]string{
		"DATABASE_URL": s.login(t, engine), "ADMIN_TOKEN": token, "SECRET_KEY_FILE": filepath.Join(t.TempDir(), "key"), "WORKER_FUNCTION": "worker",
		"LLM_PROVIDER": "openai", "LLM_MODEL": "x", "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": s.outside.URL + "/model", "ALLOW_PRIVATE_HOSTS": at.Host,
	})
	start := func(name string, timeout time.Duration, tags ...string) *rig.Function {
		bootstrap, err := rig.Build(t.Context(), functionsPackage+name, tags...)
		if err != nil {
			t.Fatal(err)
		}
		f, err := rig.Start(t.Context(), rig.Config{Bootstrap: bootstrap, Name: name, Env: env, Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		return f
	}
	s.fn, s.worker = start("coordinator", time.Minute), start("worker", timeout, "faults")
	aws.Forward("worker", s.worker)
	s.exec(t, `INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, 'Default')`, string(workspace.Default), workspace.DefaultSlug)
	s.exec(t, `INSERT INTO agent_skills (workspace_id, id, name, description, parameters, kind, scope, requires_approval, serial, config, effect, created_by, created_at, updated_at)
	           VALUES ($1, $2, 'note', 'Notes.', '{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]}', 'http', 'internal', false, false, $3,
	                   'read', 'test', lk_now(), lk_now())`,
		string(workspace.Default), uuid.NewString(), fmt.Sprintf(`{"url":%q,"idempotencyKeyHeader":"Idempotency-Key"}`, s.outside.URL+"/note"))
	if a := s.ask(t, "PUT", "/agents/"+s.agent, token, "", `{"name":"built in","spawner":"builtin","maxConcurrentTasks":3}`, nil); a.status >= 300 {
		t.Fatalf("register: %+v\n%s", a, ending(s.fn.Logs()))
	}
	return s
}

// task creates a task of so many notes, and returns its id.
func (s *shift) task(t *testing.T, notes int) (id, key string) {
	t.Helper()
	s.made++
	key = fmt.Sprintf("unit-%d", s.made)
	var made struct{ ID string }
	body := fmt.Sprintf(`{"title":%q,"retryBackoffSeconds":1,"maxRetries":5,"inputContext":{"key":%q,"notes":%d},"metadata":{"maxSteps":1000}}`, key, key, notes)
	if a := s.ask(t, "POST", "/agent-tasks", token, "", body, &made); made.ID == "" {
		t.Fatalf("create: %+v", a)
	}
	return made.ID, key
}

// pass runs a cycle, waits until no invocation of the worker is under way, and lets time pass: more if one
// was killed, whose hold ends meanwhile.
func (s *shift) pass(t *testing.T) {
	t.Helper()
	before := s.killed.Load()
	s.cycle(t)
	if err := s.worker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.killed.Load() > before {
		s.quiet(t)
		s.advance(t, 10*time.Minute)
		return
	}
	s.advance(t, 30*time.Second)
}

// quiet waits until the server has ended the statements of a process that was killed.
func (s *shift) quiet(t *testing.T) {
	t.Helper()
	const busy = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'lanekeeper_login' AND state <> 'idle'`
	for still := 0; still < 3; {
		if still++; s.count(t, busy) > 0 {
			still = 0
		}
		s.exec(t, `SELECT pg_sleep(0.005)`)
	}
}

// run invokes the worker for a task, and returns the outcome.
func (s *shift) run(t *testing.T, id string) string {
	t.Helper()
	raw, err := json.Marshal(map[string]string{"workspace": string(workspace.Default), "task": id})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.worker.Invoke(t.Context(), raw)
	if err != nil || res.FunctionError != nil {
		t.Fatalf("%v, %v\n%s", err, res, ending(s.worker.Logs()))
	}
	var r struct{ Outcome string }
	if err := json.Unmarshal(res.Payload, &r); err != nil {
		t.Fatal(err)
	}
	return r.Outcome
}

func (s *shift) status(t *testing.T, id string) string {
	t.Helper()
	return s.texts(t, `SELECT status || coalesce(': ' || last_error, '') FROM agent_tasks WHERE id = $1`, id)[0]
}

// finish passes until a task is completed.
func (s *shift) finish(t *testing.T, id string) {
	t.Helper()
	for range 40 {
		if s.pass(t); s.status(t, id) == "COMPLETED" {
			return
		}
	}
	t.Fatalf("task %s is %s\n%s", id, s.status(t, id), ending(s.worker.Logs()))
}

// verify checks that a task has one history and one effect per note. It returns how many requests came
// twice under one key.
func (s *shift) verify(t *testing.T, id, key string, notes int) (again int) {
	t.Helper()
	subject := "task:" + id
	for what, sql := range map[string]string{
		"executions":      `SELECT count(*) - 1 FROM executions WHERE subject = $1`,
		"open executions": `SELECT count(*) FROM executions WHERE subject = $1 AND status <> 'completed'`,
		"holds":           `SELECT count(*) FROM agent_locks WHERE lane = $1 AND expires_at > lk_now()`,
		"answers that came twice": `SELECT count(*) FROM (SELECT 1 FROM execution_steps s JOIN executions e ON e.workspace_id = s.workspace_id AND e.id = s.execution_id
			WHERE e.subject = $1 AND s.kind = 'model' AND s.status = 'succeeded' GROUP BY s.step HAVING count(*) > 1) x`,
		"uncertain calls": `SELECT count(*) FROM execution_steps s JOIN executions e ON e.workspace_id = s.workspace_id AND e.id = s.execution_id
			WHERE e.subject = $1 AND s.status = 'uncertain'`,
		"completions beyond one": `SELECT count(*) - 1 FROM agent_task_logs WHERE new_status = 'COMPLETED' AND 'task:' || task_id = $1`,
	} {
		if n := s.count(t, sql, subject); n != 0 {
			t.Errorf("%s of %s: %d", what, key, n)
		}
	}
	if n := s.count(t, `SELECT count(*) FROM agent_activity a JOIN executions e ON e.workspace_id = a.workspace_id AND e.id = a.execution_id
		JOIN agent_task_logs l ON l.workspace_id = e.workspace_id AND l.event = 'created' AND 'task:' || l.task_id = e.subject
		WHERE e.subject = $1 AND a.skill_name = 'note' AND a.status = 'success' AND a.trace_id = l.trace_id AND e.trace_id = l.trace_id`, subject); n != notes {
		t.Errorf("%d of %d notes of %s lead back to the request that created the task", n, notes, key)
	}
	for n := range notes {
		note := fmt.Sprintf("%s.%d", key, n)
		if effects := s.outside.Effects(note); effects != 1 {
			t.Errorf("note %s has %d effects", note, effects)
		}
		again += s.outside.Came(note) - 1
	}
	if s.outside.Came(fmt.Sprintf("%s.%d", key, notes)) > 0 {
		t.Errorf("%s has more than %d notes", key, notes)
	}
	return again
}

// handsOver has each execution be handed on once, after its first checkpoint: somebody waits for its lane.
// decide is asked about every point.
func (s *shift) handsOver(t *testing.T, decide func(rig.Point) rig.Action) {
	handed := map[string]bool{}
	s.faults.OnPoint(func(p rig.Point) rig.Action {
		if p.Name == "worker.checkpoint" && !handed[p.Key] {
			handed[p.Key] = true
			_, err := s.second.Exec(t.Context(), `UPDATE agent_locks SET wanted_at = lk_now(), wanted_by = 'a test' WHERE lane LIKE 'task:%' AND token IS NOT NULL`)
			if err != nil {
				t.Error(err)
			}
		}
		action := rig.Continue
		if decide != nil {
			action = decide(p)
		}
		if action == rig.Kill {
			s.killed.Add(1)
		}
		return action
	})
}

// TestKilledAtEveryPointOfTheWorker (R3) kills the worker at each fault point of a task that is handed on
// once, also at the hand-over itself.
func TestKilledAtEveryPointOfTheWorker(t *testing.T) {
	const notes = 4
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer}[:promise.Figure(1, 2)] {
		t.Run(engine, func(t *testing.T) {
			s := newShift(t, engine, time.Minute)
			proof := promise.Of(t, "R3", "SIGKILL of the built worker at every named point, on "+engine, "lost 0, twice 0")
			traced := promise.Of(t, "R30", "effects of the built worker back to the request that created their task, on "+engine, "100 %")
			s.handsOver(t, nil)
			id, key := s.task(t, notes)
			s.finish(t, id)
			if again := s.verify(t, id, key, notes); again > 0 {
				t.Fatalf("undisturbed, %d notes came twice", again)
			}
			turns, points := map[string]int{}, []reached{}
			for _, p := range s.faults.Points() {
				turns[p.Name]++
				points = append(points, reached{p.Name, turns[p.Name]})
			}
			if turns["worker.handed_on"] == 0 || turns["worker.checkpoint"] == 0 || turns["worker.begun"] < 2 || turns["worker.ending"] < 2 {
				t.Fatalf("the points are %v", turns)
			}
			if !promise.Full() { // where the worker begins, stores a step, hands on, and ends
				points = []reached{{"worker.begun", 1}, {"worker.checkpoint", 1}, {"worker.handed_on", 1}, {"worker.ending", 2}}
			}
			for _, where := range points {
				s.handsOver(t, at(where, rig.Kill))
				before := s.killed.Load()
				id, key := s.task(t, notes)
				s.finish(t, id)
				if n := s.killed.Load() - before; n != 1 {
					t.Errorf("%s, turn %d: killed %d times", where.name, where.turn, n)
				}
				if s.verify(t, id, key, notes); t.Failed() {
					t.Fatalf("killed at %s, turn %d\n%s", where.name, where.turn, ending(s.worker.Logs()))
				}
			}
			proof.Tell("%d points, lost 0, twice 0", len(points))
			traced.Tell("%d of %d", s.made*notes, s.made*notes)
		})
	}
}

// TestATaskOutlivesItsInvocations: a task needs many times as long as an invocation of the worker lasts,
// and every third invocation is killed when it hands on. It has one history, and no step comes twice.
func TestATaskOutlivesItsInvocations(t *testing.T) {
	t.Parallel()
	const longest = 2 * time.Minute // of an invocation: a machine that needs more is no machine
	minutes := promise.Figure(2, 40)
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer}[:promise.Figure(1, 2)] {
		t.Run(engine, func(t *testing.T) {
			proof := promise.Of(t, "R3", fmt.Sprintf("a task of %d minutes on a worker whose invocations last one (scaled), killed at hand-overs, on %s", minutes, engine),
				"one history, no step twice")
			for minute := 14 * time.Second; ; minute *= 2 {
				told, slow := outlives(t, engine, minute, minutes)
				if slow == "" {
					proof.Tell("%s", told)
					return
				}
				if t.Logf("invocations of %s are too short for this machine: %s", minute, slow); 2*minute > longest {
					t.Fatal("no length of the invocations was enough")
				}
			}
		})
	}
}

// outlives has a task worked on that needs some invocations of that length, of which two seconds are for their
// ends. slow says that the machine was too slow for the length: an invocation was cut off by its time-out, or did
// not finish a step.
func outlives(t *testing.T, engine string, minute time.Duration, minutes int) (told, slow string) {
	t.Helper()
	const steps = 6 // of a minute, so that an invocation has time for five
	s := newShift(t, engine, minute)
	s.outside.Sleep(minute / steps)
	handed := 0
	s.faults.OnPoint(func(p rig.Point) rig.Action {
		if p.Name != "worker.handed_on" {
			return rig.Continue
		}
		if handed++; handed%3 != 0 && handed != 1 {
			return rig.Continue
		}
		s.killed.Add(1)
		return rig.Kill
	})
	notes := minutes * steps
	id, key := s.task(t, notes)
	for range 10 * minutes {
		s.pass(t)
		if n := s.worker.TimedOut(); n > 0 || strings.Contains(s.worker.Logs(), "the time of the invocation was up") {
			return "", fmt.Sprintf("%d were cut off, or their time was up", n)
		}
		if is := s.status(t, id); strings.Contains(is, "without a finished step") {
			return "", is
		} else if is == "COMPLETED" {
			break
		}
	}
	if is := s.status(t, id); is != "COMPLETED" {
		t.Fatalf("it is %s\n%s", is, ending(s.worker.Logs()))
	}
	if again := s.verify(t, id, key, notes); again > 0 {
		t.Errorf("%d notes came twice", again)
	}
	begun := s.count(t, `SELECT attempt FROM executions WHERE subject = $1`, "task:"+id)
	if begun < minutes {
		t.Errorf("%d invocations for %d minutes", begun, minutes)
	}
	return fmt.Sprintf("%d steps in %d invocations, %d killed as they handed on: one history, 0 steps twice", notes, begun, s.killed.Load()), ""
}

// TestAFrozenWorkerWritesNothing (R2): the worker is stopped at each fault point until its lease is over and
// another invocation has finished the task. When it goes on, it writes nothing.
func TestAFrozenWorkerWritesNothing(t *testing.T) {
	const notes = 2
	s := newShift(t, dbtest.OnPostgres, 15*time.Minute) // as in the template: a lane outlives it
	proof := promise.Of(t, "R2", "SIGSTOP of the built worker at its named points until its lease is over, and SIGCONT", "0 stale effects in tables or ledger")
	s.handsOver(t, nil)
	id, key := s.task(t, notes)
	s.finish(t, id)
	s.verify(t, id, key, notes)
	turns, points := map[string]int{}, []reached{}
	for _, p := range s.faults.Points() {
		turns[p.Name]++
		points = append(points, reached{p.Name, turns[p.Name]})
	}
	if !promise.Full() { // where the worker begins, stores a step, hands on, and ends
		points = []reached{{"worker.begun", 1}, {"worker.checkpoint", 1}, {"worker.handed_on", 1}, {"worker.ending", 2}}
	}
	freezes := 0
	for range promise.Figure(1, 100/len(points)+1) {
		for _, where := range points {
			s.freeze(t, where, notes)
			if freezes++; t.Failed() {
				t.Fatalf("frozen at %s, turn %d\n%s", where.name, where.turn, ending(s.worker.Logs()))
			}
		}
	}
	proof.Tell("%d freezes, 0 stale effects", freezes)
}

// freeze has the worker stopped at a point of a task that another invocation then finishes.
func (s *shift) freeze(t *testing.T, where reached, notes int) {
	t.Helper()
	stands := make(chan rig.Point, 1)
	decide := at(where, rig.Freeze)
	s.handsOver(t, func(p rig.Point) rig.Action {
		action := decide(p)
		if action == rig.Freeze {
			stands <- p
		}
		return action
	})
	id, key := s.task(t, notes)
	frozen := s.untilFrozen(t, id, stands)
	s.faults.OnPoint(nil)
	s.advance(t, time.Hour)
	for until := time.Now().Add(2 * time.Minute); s.status(t, id) != "COMPLETED"; s.run(t, id) {
		if time.Now().After(until) {
			t.Fatalf("task %s is %s beside a frozen worker\n%s", id, s.status(t, id), ending(s.worker.Logs()))
		}
	}
	for len(s.worker.Running()) > 1 { // one was handed on to, and finds nothing to do
		s.exec(t, `SELECT pg_sleep(0.005)`)
	}
	before := s.snapshot(t)
	s.faults.Thaw(frozen)
	if err := s.worker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := s.snapshot(t); !slices.Equal(before, after) {
		t.Errorf("the thawed worker wrote:\n%s", difference(before, after))
	}
	s.verify(t, id, key, notes)
}

// untilFrozen runs cycles until the worker of a task is stopped.
func (s *shift) untilFrozen(t *testing.T, id string, stands <-chan rig.Point) rig.Point {
	t.Helper()
	for range 10 {
		s.cycle(t)
		idle := make(chan error, 1)
		go func() { idle <- s.worker.Drain(t.Context()) }()
		select {
		case at := <-stands:
			for p := (rig.Point{}); p.Seq != at.Seq; {
				var err error
				if p, err = s.faults.WaitFor(t.Context(), at.Name); err != nil {
					t.Fatal(err)
				}
			}
			return at
		case err := <-idle:
			if err != nil {
				t.Fatal(err)
			}
		}
		s.advance(t, 30*time.Second)
	}
	t.Fatalf("task %s is %s: the point did not come up", id, s.status(t, id))
	return rig.Point{}
}

// snapshot returns the rows that only the holder of a task's lane writes.
func (s *shift) snapshot(t *testing.T) (all []string) {
	t.Helper()
	for _, table := range []string{"executions", "execution_steps", "agent_activity", "agent_tasks", "agent_task_logs", "agent_task_attempts"} {
		all = append(all, s.texts(t, `SELECT '`+table+` ' || to_jsonb(x)::text FROM `+table+` x ORDER BY 1`)...)
	}
	return all
}

// TestAKilledWorkerFreesItsTask (R5): the lane of its task is free when its lease is over, and not before.
func TestAKilledWorkerFreesItsTask(t *testing.T) {
	s := newShift(t, dbtest.OnPostgres, time.Minute)
	proof := promise.Of(t, "R5", "SIGKILL of the built worker at work", "free at TTL + 1 s, never before TTL")
	kills := promise.Figure(2, 100)
	lanes := func(id string) time.Duration {
		return time.Duration(s.count(t, `SELECT ceil(extract(epoch FROM expires_at - lk_now()) * 1000)::int FROM agent_locks WHERE lane = $1`, "task:"+id)) * time.Millisecond
	}
	for n := range kills {
		before := s.killed.Load() // the worker may begin as soon as there is a task
		s.handsOver(t, at(reached{[]string{"worker.begun", "worker.checkpoint"}[n%2], 1}, rig.Kill))
		id, key := s.task(t, 2)
		for range 10 {
			s.cycle(t)
			if err := s.worker.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.killed.Load() > before {
				break
			}
			s.advance(t, 5*time.Second)
		}
		if s.killed.Load() == before {
			t.Fatalf("it was not killed in attempt %d: the task is %s\n%v\n%s", n+1, s.status(t, id),
				s.texts(t, `SELECT event || ' ' || message FROM agent_task_logs WHERE task_id = $1 ORDER BY created_at`, id), ending(s.worker.Logs()))
		}
		s.quiet(t)
		s.faults.OnPoint(nil)
		s.advance(t, lanes(id)-3*time.Second) // an invocation takes some time, too
		is := s.run(t, id)
		if is != "busy" && lanes(id) > 0 {
			t.Fatalf("the lane was free %s before its lease was over: %s", lanes(id), is)
		}
		if is == "busy" { // else the invocation took longer than the rest of the lease
			s.advance(t, max(0, lanes(id))+time.Second)
			is = s.run(t, id)
		}
		if is != "ended" && is != "handed_on" {
			t.Fatalf("1 s after the lease of its lane: %s", is)
		}
		s.finish(t, id)
		s.verify(t, id, key, 2)
	}
	proof.Tell("%d kills, free at TTL + 1 s, never before TTL", kills)
}
