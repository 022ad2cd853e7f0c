package approval_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine with its approvals, its outbox and some skills.
type world struct {
	dbtest.Env
	s     *approval.Store
	e     *approval.Executor
	box   *outbox.Store
	log   *activity.Log
	lanes *lane.Store
	ran   *ledger
	q     struct{ Become, Tamper, Rebind, Begin, Set, Note, Notes db.Query }
	// skills are the existing skills. A test may replace them.
	skills *[]skill.Skill
	// off says what people have switched off.
	off switched
	// meanwhile runs whenever skills are loaded.
	meanwhile func()
	settled   int // how often the waiting side was notified
}

// switched holds the name of an agent or a skill that is off.
type switched struct{ agent, skill string }

func (s switched) Run(agent string, _ ...string) string { return is(s.agent, agent) }
func (s switched) Skill(name string) string             { return is(s.skill, name) }

func is(off, name string) string {
	if off != name {
		return ""
	}
	return name + " is switched off"
}

// ledger counts the effects of skills by key, outside of the tested system.
type ledger struct {
	mu    sync.Mutex
	calls []skill.Call
}

func (l *ledger) effect(c skill.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
}

// count returns the number of calls, and of different keys.
func (l *ledger) count() (calls, keys int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]bool{}
	for _, c := range l.calls {
		seen[c.Key] = true
	}
	return len(l.calls), len(seen)
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e, ran: &ledger{}, skills: new([]skill.Skill), meanwhile: func() {}}
	dbtest.Load(t, "testdata", &w.q)
	workspaces, err1 := workspace.New(e.DB)
	var err2, err3, err4, err5 error
	w.log, err2 = activity.New(e.DB, ids)
	w.lanes, err3 = lane.New(e.DB)
	w.box, err4 = outbox.New(e.DB, ids, func() float64 { return 0.5 })
	w.s, err5 = approval.New(approval.Deps{
		DB: e.DB, Workspaces: workspaces, Outbox: w.box, Activity: w.log, IDs: ids,
		Switches: func(context.Context, db.Workspace) (reason.Halts, error) { return w.off, nil },
		Settled:  func(context.Context, *db.Batch, approval.Approval) { w.settled++ },
		Skills: func(_ context.Context, _ db.Workspace, surface trace.Surface) (*skill.Set, error) {
			w.meanwhile()
			set, err := skill.NewSet(*w.skills...)
			return set.For(surface), err
		},
	})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	w.e = &approval.Executor{Store: w.s, Lanes: w.lanes, Instance: "test", Clock: time.Now, Log: slog.New(slog.DiscardHandler)}
	*w.skills = []skill.Skill{w.note(), w.post(true), w.post(false), w.fragile()}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

var traces = trace.NewSource(time.Now, rand.Reader)

const textOnly = `{"type": "object", "properties": {"text": {"type": "string", "maxLength": 20}, "n": {"type": "integer"}},
	"required": ["text"], "additionalProperties": false}`

// note returns a skill that writes in the database, under its own lane.
func (w *world) note() skill.Skill {
	return skill.Skill{
		ID: "0190a000-0000-7000-8000-00000000000a", Name: "note", Parameters: []byte(textOnly), Scope: skill.Internal, RequiresApproval: true,
		Lanes: func(skill.Call) []lane.Name { return []lane.Name{"notes"} },
		Run: func(_ context.Context, tx lane.Tx, c skill.Call) (any, error) {
			if err := tx.Proves("notes"); err != nil {
				return nil, err
			}
			var in struct{ Text string }
			if err := json.Unmarshal(c.Arguments, &in); err != nil {
				return nil, skill.Refuse("unreadable")
			}
			w.ran.effect(c)
			tx.Later().Exec(w.q.Note, ids(), in.Text, ids())
			return map[string]string{"noted": in.Text}, nil
		},
	}
}

// post returns a skill that works outside the database: post with keys, blind_post without.
func (w *world) post(keyed bool) skill.Skill {
	name := "blind_post"
	if keyed {
		name = "post"
	}
	return skill.Skill{Name: name, Parameters: []byte(textOnly), RequiresApproval: true, Keyed: keyed, Do: func(_ context.Context, c skill.Call) (any, error) {
		w.ran.effect(c)
		return "posted", nil
	}}
}

// fragile returns a skill that writes, and then fails in the way that its argument says.
func (w *world) fragile() skill.Skill {
	return skill.Skill{Name: "fragile", Parameters: []byte(textOnly), Run: func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
		var in struct{ Text string }
		if err := json.Unmarshal(c.Arguments, &in); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, w.q.Note, ids(), in.Text, ids()); err != nil {
			return nil, err
		}
		switch in.Text {
		case "refuse":
			return nil, skill.Refuse("no more of that")
		case "panic":
			panic("secret")
		case "error":
			return nil, errors.New("secret")
		case "long":
			tx.Later().Exec(w.q.Note, ids(), strings.Repeat("x", 9000), ids())
		}
		return nil, nil
	}}
}

// asked returns an approval of a call that is not stored yet.
func asked(name, arguments string) approval.Approval {
	return approval.Approval{
		Skill: name, Arguments: json.RawMessage(arguments), Why: "the skill requires approval", Execution: ids(), Call: "3.1",
		Subject: lane.Heartbeat, Agent: activity.Operator, Surface: trace.Heartbeat, Trace: traces.New(trace.Heartbeat),
	}
}

// request stores an approval.
func (w *world) request(t testing.TB, a approval.Approval) (id string) {
	t.Helper()
	if a.Skill == "note" {
		a.SkillID = w.note().ID
	}
	request := lane.Request{Workspace: w.Workspace, Lane: a.Subject, Holder: "test"}
	err := w.lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
		return w.lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) (err error) {
			id, err = w.s.Request(ctx, tx, a)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w *world) get(t testing.TB, id string) approval.Approval {
	t.Helper()
	a, err := w.s.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const ada = "local:ada"

func (w *world) approve(t testing.TB, id string) {
	t.Helper()
	if _, err := w.s.Approve(t.Context(), w.Workspace, id, ada, nil); err != nil {
		t.Fatal(err)
	}
}

// approved returns a stored and approved call.
func (w *world) approved(t testing.TB, name, arguments string) (id string) {
	t.Helper()
	id = w.request(t, asked(name, arguments))
	w.approve(t, id)
	return id
}

func (w *world) sender() *outbox.Sender {
	return &outbox.Sender{Store: w.box, Handlers: map[string]outbox.Handler{approval.Topic: w.e}, Holder: "test", Log: w.e.Log}
}

func (w *world) drain(t testing.TB) outbox.Report {
	t.Helper()
	r, err := w.sender().Drain(t.Context(), w.Workspace, 100)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// row returns the approval's row in the outbox.
func (w *world) row(t testing.TB, id string) outbox.Entry {
	t.Helper()
	e, ok := w.found(t, id)
	if !ok {
		t.Fatalf("approval %s has no row in the outbox", id)
	}
	return e
}

func (w *world) found(t testing.TB, id string) (outbox.Entry, bool) {
	t.Helper()
	rows, more, err := w.box.List(t.Context(), w.Workspace, outbox.Filter{Topic: approval.Topic, Limit: 200})
	if err != nil || more {
		t.Fatalf("list the outbox: %v, more: %v", err, more)
	}
	i := slices.IndexFunc(rows, func(e outbox.Entry) bool { return e.Key == approval.Key(id) })
	if i < 0 {
		return outbox.Entry{}, false
	}
	return rows[i], true
}

// actions returns the lines of the activity log, oldest first.
func (w *world) actions(t testing.TB, f activity.Filter) []activity.Entry {
	t.Helper()
	p, err := w.log.List(t.Context(), w.Workspace, f)
	if err != nil {
		t.Fatal(err)
	}
	var out []activity.Entry
	for _, e := range p.Items {
		out = append([]activity.Entry{e}, out...)
	}
	return out
}

// story returns the log of an approval's trace: "skill status", in order.
func (w *world) story(t testing.TB, a approval.Approval) string {
	t.Helper()
	var out []string
	for _, e := range w.actions(t, activity.Filter{Trace: a.Trace}) {
		if e.Execution != a.Execution {
			t.Errorf("%s is of execution %q, want %q", e.Skill, e.Execution, a.Execution)
		}
		out = append(out, e.Skill+" "+string(e.Status))
	}
	return strings.Join(out, ", ")
}

// notes returns what the skills of this test have written in the database.
func (w *world) notes(t testing.TB) string {
	t.Helper()
	var out []string
	err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
		var text string
		err := scan(&text)
		out = append(out, text)
		return err
	}, w.q.Notes)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, ", ")
}

func (w *world) exec(t testing.TB, q db.Query, args ...any) {
	t.Helper()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, q, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) mustBeFree(t testing.TB) {
	t.Helper()
	held, err := w.lanes.List(t.Context(), w.Workspace, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range held {
		t.Errorf("lane %s is held by %s", l.Lane, l.Holder)
	}
}

func same(t testing.TB, what string, got json.RawMessage, want string) {
	t.Helper()
	if got := strings.ReplaceAll(string(got), " ", ""); got != strings.ReplaceAll(want, " ", "") { // a database may change the spacing
		t.Errorf("%s is %s, want %s", what, got, want)
	}
}
