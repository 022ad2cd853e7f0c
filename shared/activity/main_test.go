package activity_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine with its log.
type world struct {
	dbtest.Env
	log *activity.Log
	q   struct{ Story, PutAt, Count db.Query }
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	dbtest.Load(t, "testdata", &w.q)
	var err error
	if w.log, err = activity.New(e.DB, ids); err != nil {
		t.Fatal(err)
	}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// neighbour returns another workspace of the same database.
func (w world) neighbour(t testing.TB) world {
	t.Helper()
	w.Workspace = dbtest.NewWorkspace(t, w.DB)
	return w
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

var traces = trace.NewSource(time.Now, rand.Reader)

func newTrace() trace.ID { return traces.New(trace.Heartbeat) }

// entry returns an action with all required fields.
func entry(skill string, id trace.ID) activity.Entry {
	return activity.Entry{Agent: activity.Operator, Surface: trace.Heartbeat, Skill: skill, Status: activity.Success, Trace: id}
}

func (w world) write(t testing.TB, entries ...activity.Entry) {
	t.Helper()
	for _, e := range entries {
		if err := w.log.Write(t.Context(), w.Workspace, e); err != nil {
			t.Fatal(err)
		}
	}
}

func (w world) list(t testing.TB, f activity.Filter) activity.Page {
	t.Helper()
	p, err := w.log.List(t.Context(), w.Workspace, f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// skills returns the skill names of a listing, in order.
func (w world) skills(t testing.TB, f activity.Filter) []string {
	t.Helper()
	out := []string{}
	for _, e := range w.list(t, f).Items {
		out = append(out, e.Skill)
	}
	return out
}

func (w world) story(t testing.TB, id trace.ID) []activity.Entry {
	t.Helper()
	var b db.Batch
	story := w.log.OfTrace(&b, id)
	if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return *story
}

// the returns the only entry of a trace.
func (w world) the(t testing.TB, id trace.ID) activity.Entry {
	t.Helper()
	story := w.story(t, id)
	if len(story) != 1 {
		t.Fatalf("the trace has %d entries, want 1", len(story))
	}
	return story[0]
}

func (w world) count(t testing.TB) (n int) {
	t.Helper()
	if err := w.DB.One(context.Background(), w.Workspace, []any{&n}, w.q.Count); err != nil {
		t.Fatal(err)
	}
	return n
}

// sameJSON compares JSON and ignores spacing and the order of keys.
func sameJSON(t testing.TB, got, want json.RawMessage) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Errorf("%s: %v", got, err)
		return false
	}
	if err := json.Unmarshal(want, &b); err != nil {
		t.Errorf("%s: %v", want, err)
		return false
	}
	return reflect.DeepEqual(a, b)
}
