package chaos_test

import (
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

func TestSameSlotThreeAtOnceRunsOnce(t *testing.T) {
	w := newWorld(t, rig.Config{})
	ws, objective := w.workspace(t)
	event := w.tick(ws)
	outcomes := map[heartbeat.Outcome]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			res, err := w.fn.Invoke(t.Context(), event)
			r := report(t, res, err)
			mu.Lock()
			defer mu.Unlock()
			outcomes[r.Outcome]++
		})
	}
	wg.Wait()
	if outcomes[heartbeat.Completed] != 1 || outcomes[heartbeat.Skipped]+outcomes[heartbeat.Duplicate] != 2 {
		t.Errorf("outcomes: %v", outcomes)
	}
	res, err := w.fn.Invoke(t.Context(), event) // and once more, late
	if r := report(t, res, err); r.Outcome != heartbeat.Duplicate {
		t.Errorf("delivered again it was %s", r.Outcome)
	}
	if n := w.count(t, `SELECT count(*) FROM executions WHERE workspace_id = $1 AND slot IS NOT NULL`, ws); n != 1 {
		t.Errorf("the slot has %d executions", n)
	}
	if n := w.count(t, `SELECT count(*) FROM ledger WHERE workspace = $1 AND effect = 'step.done'`, ws); n != 1 {
		t.Errorf("%d steps were done by one slot", n)
	}
	w.finish(t, ws)
	w.verify(t, ws, objective)
}

func TestKeepsOffWhilePersonWorks(t *testing.T) {
	w := newWorld(t, rig.Config{})
	ws, objective := w.workspace(t)
	hold := func() {
		w.exec(t, `SELECT set_config('app.workspace_id', $1, false)`, ws)
		if got := w.texts(t, `SELECT acquired::text FROM acquire_agent_lane('operate', 'ada at her console', 60)`); got[0] != "true" {
			t.Fatal("the lane operate is taken")
		}
	}
	hold()
	res, err := w.fn.Invoke(t.Context(), w.tick(ws))
	r := report(t, res, err)
	if r.Outcome != heartbeat.Skipped || r.Holder != "ada at her console" {
		t.Errorf("the beat was %s, holder %q", r.Outcome, r.Holder)
	}
	rows := w.texts(t, `SELECT status || ' ' || (output->>'holder') FROM agent_activity WHERE workspace_id = $1`, ws)
	if len(rows) != 1 || rows[0] != "skipped ada at her console" {
		t.Errorf("activity: %v", rows)
	}
	w.advance(t, 2*time.Minute)
	w.finish(t, ws)
	w.verify(t, ws, objective)
}

func TestFailedBeatIsRetriedAndFinishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rig.Config{})
	for _, where := range sample(t, w.learn(t), 20) {
		ws, objective := w.workspace(t)
		w.faults.OnPoint(at(where, rig.Fail))
		results := w.untilFailed(t, ws)
		w.faults.OnPoint(nil)
		if len(results) != 2 {
			t.Errorf("at %v: %d attempts", where, len(results))
		}
		if r := report(t, results[len(results)-1], nil); r.Outcome != heartbeat.Completed && r.Outcome != heartbeat.Idle {
			t.Errorf("at %v: the retry was %s (%s)", where, r.Outcome, r.Reason)
		}
		w.finish(t, ws)
		w.verify(t, ws, objective)
	}
	if letters := w.fn.DeadLetters(); len(letters) > 0 {
		t.Errorf("dead letters: %v", letters)
	}
}

// untilFailed sends asynchronous ticks until one fails, and returns its attempts.
func (w *world) untilFailed(t *testing.T, ws string) []*rig.Result {
	t.Helper()
	for range 5 {
		event, err := w.fn.InvokeAsync(t.Context(), w.tick(ws))
		if err != nil {
			t.Fatal(err)
		}
		results, err := event.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if results[0].FunctionError != nil {
			return results
		}
	}
	t.Fatal("no beat failed")
	return nil
}

func TestTimedOutBeatGoesOn(t *testing.T) {
	w := newWorld(t, rig.Config{})
	ws, objective := w.workspace(t)
	w.faults.OnPoint(at(reached{"skill.before", 1}, rig.Freeze))
	res, err := w.fn.Invoke(t.Context(), w.tick(ws), rig.WithTimeout(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if !res.TimedOut {
		t.Fatalf("it did not time out: %+v", res)
	}
	w.settle(t)
	w.goesOn(t, ws, objective)
}

func TestFreezeBetweenInvocations(t *testing.T) {
	w := newWorld(t, rig.Config{FreezeBetween: true})
	ws, objective := w.workspace(t)
	for range 2 {
		res, err := w.fn.Invoke(t.Context(), w.tick(ws))
		report(t, res, err)
		// The server closes the frozen process's connections meanwhile.
		w.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		w.advance(t, 30*time.Minute)
	}
	w.finish(t, ws)
	w.verify(t, ws, objective)
}

func TestDatabaseAway(t *testing.T) {
	nowhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := nowhere.Addr().String()
	if err := nowhere.Close(); err != nil {
		t.Fatal(err)
	}
	message := failure(t, "postgres://app:secret@"+address+"/lanekeeper?sslmode=disable")
	if !strings.Contains(message, "database can't be reached") || strings.Contains(message, "secret") {
		t.Errorf("the message is %q", message)
	}
}

func TestSchemaMissingThenThere(t *testing.T) {
	owner := dbtest.NewDatabase(t)
	fn := start(t, dbtest.AsLogin(owner))
	res, err := fn.Invoke(t.Context(), []byte(`{"by":"hand"}`))
	if err != nil {
		t.Fatal(err)
	}
	if res.FunctionError == nil || !strings.Contains(res.FunctionError.Message, "lanekeeper migrate") {
		t.Errorf("without a schema: %+v", res.FunctionError)
	}
	if _, err := migrate.Postgres(t.Context(), owner, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	again, err := fn.Invoke(t.Context(), []byte(`{"by":"hand"}`))
	if r := report(t, again, err); again.Cold || r.Outcome != heartbeat.Fanned && r.Outcome != heartbeat.Idle {
		t.Errorf("after the migration: cold %v, %+v", again.Cold, r)
	}
}

func TestBadConfigurationSaysAllOfIt(t *testing.T) {
	bootstrap, err := rig.Build(t.Context(), functionsPackage+"heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	fn, err := rig.Start(t.Context(), rig.Config{Bootstrap: bootstrap, Name: "heartbeat", Env: map[string]string{
		"STATE_BACKEND": "sqlite", "LOG_LEVEL": "shout", "DATABASE_URL": "not a url",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer fn.Close()
	res, err := fn.Invoke(t.Context(), []byte(`{"by":"hand"}`))
	if err != nil {
		t.Fatal(err)
	}
	all := res.Logs
	if res.FunctionError != nil {
		all += res.FunctionError.Message
	}
	for _, variable := range []string{"STATE_BACKEND", "LOG_LEVEL"} {
		if !strings.Contains(all, variable) {
			t.Errorf("%s is not named in %s", variable, all)
		}
	}
}

func TestSeveralWorkspacesFanOut(t *testing.T) {
	aws, err := rig.StartAWS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(aws.Close)
	w := newWorld(t, rig.Config{Env: aws.Env()})
	var all [2][2]string
	for i := range all {
		all[i][0], all[i][1] = w.workspace(t)
	}
	aws.Forward("heartbeat", w.fn)
	slot := time.Date(2026, 1, 5, 10, 30, 0, 0, time.UTC).Format(time.RFC3339)
	res, err := w.fn.Invoke(t.Context(), []byte(`{"source":"lanekeeper.schedule","slot":"`+slot+`"}`))
	if r := report(t, res, err); r.Outcome != heartbeat.Fanned {
		t.Fatalf("the tick was %s (%s)", r.Outcome, r.Reason)
	}
	if err := w.fn.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	invokes := aws.Invokes()
	if len(invokes) != 2 {
		t.Errorf("%d invocations for two workspaces", len(invokes))
	}
	for _, inv := range invokes {
		var sent struct{ Workspace, Slot string }
		if err := json.Unmarshal(inv.Payload, &sent); err != nil || sent.Workspace == "" || sent.Slot != slot {
			t.Errorf("handed on: %s", inv.Payload)
		}
	}
	for _, one := range all {
		if n := w.count(t, `SELECT count(*) FROM ledger WHERE workspace = $1 AND effect = 'step.done'`, one[0]); n != 1 {
			t.Errorf("workspace %s: %d steps done", one[0], n)
		}
	}
}

func TestURLFromSecretsManager(t *testing.T) {
	aws, err := rig.StartAWS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(aws.Close)
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:lanekeeper"
	w := newWorld(t, rig.Config{})
	aws.SetSecret(arn, dbtest.AsLogin(w.owner))
	bootstrap, err := rig.Build(t.Context(), functionsPackage+"heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	fn, err := rig.Start(t.Context(), rig.Config{
		Bootstrap: bootstrap, Name: "heartbeat", Env: rig.Env(aws.Env(), map[string]string{"DATABASE_SECRET_ARN": arn}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer fn.Close()
	ws, _ := w.workspace(t)
	res, err := fn.Invoke(t.Context(), w.tick(ws))
	if r := report(t, res, err); r.Outcome != heartbeat.Completed {
		t.Errorf("the beat was %s", r.Outcome)
	}
}

// start starts the heartbeat on a database.
func start(t *testing.T, url string) *rig.Function {
	t.Helper()
	bootstrap, err := rig.Build(t.Context(), functionsPackage+"heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	fn, err := rig.Start(t.Context(), rig.Config{Bootstrap: bootstrap, Name: "heartbeat", Env: map[string]string{"DATABASE_URL": url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fn.Close)
	return fn
}

// failure returns the error message of a beat that must fail.
func failure(t *testing.T, url string) string {
	t.Helper()
	res, err := start(t, url).Invoke(t.Context(), []byte(`{"by":"hand"}`))
	if err != nil {
		t.Fatal(err)
	}
	if res.FunctionError == nil {
		t.Fatalf("the beat answered %s", res.Payload)
	}
	return res.FunctionError.Message
}
