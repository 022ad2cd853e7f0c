package reason_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a new workspace on one engine with everything that the loop needs.
type world struct {
	dbtest.Env
	runs     *execution.Store
	lanes    *lane.Store
	log      *activity.Log
	memories *memory.Store
	logged   *logged
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e, logged: &logged{}}
	var err1, err2, err3, err4 error
	w.runs, err1 = execution.New(e.DB)
	w.lanes, err2 = lane.New(e.DB)
	w.log, err3 = activity.New(e.DB, ids)
	w.memories, err4 = memory.New(e.DB, ids)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// logged records the log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// line returns the only line with this message.
func (l *logged) line(t testing.TB, message string) map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]any
	for raw := range strings.Lines(l.text.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(raw), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == message {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%q is logged %d times", message, len(found))
	}
	return found[0]
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

var traces = trace.NewSource(time.Now, rand.Reader)

func (w *world) runner(m llm.Model) *reason.Runner {
	out := slog.New(trace.NewHandler(slog.NewJSONHandler(io.Writer(w.logged), nil)))
	return &reason.Runner{Model: m, Runs: w.runs, Lanes: w.lanes, Activity: w.log, Queues: queue.New(queue.Options{Queues: map[string]queue.Limits{reason.CallQueue: {MaxConcurrent: 4}}}), Log: out, Clock: time.Now}
}

func (w *world) acquire(t testing.TB, name lane.Name) *lane.Hold {
	t.Helper()
	h, err := w.lanes.Acquire(context.Background(), lane.Request{Workspace: w.Workspace, Lane: name, Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (w *world) release(t testing.TB, h *lane.Hold) {
	t.Helper()
	if err := w.lanes.Release(context.Background(), h); err != nil {
		t.Fatal(err)
	}
}

// job returns a job with a new execution under its own lane, which may use the skills.
func (w *world) job(t testing.TB, skills ...skill.Skill) reason.Job {
	t.Helper()
	id := ids()
	h := w.acquire(t, lane.Name("work:"+id))
	e := execution.Execution{
		ID: id, Agent: activity.Operator, Surface: trace.Heartbeat, Trace: traces.New(trace.Heartbeat), Subject: h.Lane, Attempt: 1,
	}
	err := w.lanes.InHold(context.Background(), h, func(_ context.Context, tx lane.Tx) error { return w.runs.Start(tx, e) })
	if err != nil {
		t.Fatal(err)
	}
	set, err := skill.NewSet(skills...)
	if err != nil {
		t.Fatal(err)
	}
	return reason.Job{
		Execution: e, Hold: h, Agent: activity.Operator, System: "You work.", Messages: []llm.Message{{Role: llm.RoleUser, Text: "Begin."}},
		Skills: set, MaxTokens: 100, Stops: []reason.Stop{reason.MaxSteps(20)}, Retries: 2, SkillTimeout: 10 * time.Second,
	}
}

// run runs a job to its end.
func (w *world) run(t testing.TB, m llm.Model, job reason.Job) reason.Outcome {
	t.Helper()
	out, err := w.runner(m).Run(job.Under(t.Context()), job)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// close ends a job's execution as its caller does.
func (w *world) close(t testing.TB, job reason.Job, out reason.Outcome) execution.Execution {
	t.Helper()
	err := w.lanes.InHold(job.Under(t.Context()), job.Hold, func(ctx context.Context, tx lane.Tx) error {
		return w.runner(nil).Close(ctx, tx, job, out)
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := w.runs.Get(t.Context(), w.Workspace, job.Execution.ID)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (w *world) journal(t testing.TB, job reason.Job) []execution.Entry {
	t.Helper()
	entries, err := w.runs.Journal(context.Background(), w.Workspace, job.Execution.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// told describes a journal as texts. Two runs with the same course have the same texts.
func (w *world) told(t testing.TB, job reason.Job) []string {
	t.Helper()
	var out []string
	for _, e := range w.journal(t, job) {
		var body any
		if err := json.Unmarshal(e.Body, &body); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%d step %d %s %s %s %s", e.Seq, e.Step, e.Kind, e.Status, e.Call, raw))
	}
	return out
}

// results returns the results of the calls, in the model's order.
func (w *world) results(t testing.TB, job reason.Job) []llm.ToolResult {
	t.Helper()
	var out []llm.ToolResult
	entries := slices.DeleteFunc(w.journal(t, job), func(e execution.Entry) bool { return e.Kind != execution.Result })
	slices.SortFunc(entries, func(a, b execution.Entry) int { return strings.Compare(a.Call, b.Call) })
	for _, e := range entries {
		var body struct{ Result llm.ToolResult }
		if err := json.Unmarshal(e.Body, &body); err != nil {
			t.Fatal(err)
		}
		if body.Result.IsError != (e.Status != execution.Succeeded) {
			t.Errorf("entry %d is %s and its result an error: %v", e.Seq, e.Status, body.Result.IsError)
		}
		out = append(out, body.Result)
	}
	return out
}

// actions returns the activities of calls that were made, in order.
func (w *world) actions(t testing.TB, job reason.Job) []activity.Entry {
	t.Helper()
	return slices.DeleteFunc(w.story(t, job), func(e activity.Entry) bool {
		return e.Skill == activity.ModelCall || bytes.Contains(e.Output, []byte(`"refused"`))
	})
}

// story returns the activities of a job's trace, in order.
func (w *world) story(t testing.TB, job reason.Job) []activity.Entry {
	t.Helper()
	var b db.Batch
	story := w.log.OfTrace(&b, job.Execution.Trace)
	if err := w.DB.Read(context.Background(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return *story
}

// remembered returns the memories of the operator's agent, oldest first.
func (w *world) remembered(t testing.TB) (contents []string) {
	t.Helper()
	found, err := w.memories.Newest(context.Background(), w.Workspace, activity.Operator, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range found {
		contents = append([]string{m.Content}, contents...)
	}
	return contents
}

// counts counts events outside of the database.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[key]++
	return c.n[key]
}

func (c *counts) of(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[key]
}

const anything = `{"type": "object"}`

// does returns a skill without further lanes.
func does(name, schema string, fn func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error)) skill.Skill {
	return skill.Skill{Name: name, Description: name, Parameters: []byte(schema), Run: fn}
}

// echo returns a skill that answers with its arguments.
func echo() skill.Skill {
	return does("echo_back", `{
	  "type": "object",
	  "properties": {"text": {"type": "string", "maxLength": 20}, "n": {"type": "integer", "minimum": 1}},
	  "required": ["text"], "additionalProperties": false
	}`, func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) { return c.Arguments, nil })
}

// remember returns a skill that saves a memory under its lane and then returns then's error.
func (w *world) remember(name string, then func() error) skill.Skill {
	k := does(name, anything, func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
		_, _, err := w.memories.Save(ctx, tx, memory.Memory{Agent: c.Agent, Category: "test", Content: c.Key, Importance: 5}, 0)
		if err != nil {
			return nil, err
		}
		return map[string]any{"saved": true}, then()
	})
	k.Lanes = func(c skill.Call) []lane.Name { return []lane.Name{lane.Memory(c.Agent)} }
	return k
}

func fine() error { return nil }
