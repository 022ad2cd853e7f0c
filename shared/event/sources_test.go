package event_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

type changes struct {
	AddActivity, AddBareActivity               db.Query
	AddExecution, SetExecution, SpendExecution db.Query
	AddEnded                                   db.Query
	AddApproval, SetApproval                   db.Query
	AddSkill, SetSkill                         db.Query
	AddAutomation, SetAutomation               db.Query
	AddObjective, SetObjective                 db.Query
	SaveMemory, ForgetMemory, DeleteWorkspace  db.Query
	AddStep, AddThread, LockThread, AddMessage db.Query
	AddOutgoing, SetOutgoing                   db.Query
	AddBudget, SpendBudget, SetBudget          db.Query
	AddHeal, SetHeal, AddSwitch, ReleaseSwitch db.Query
	AddLane, WantLane                          db.Query
}

// told returns an event's kind, trace and data as text.
func told(e event.Event) string { return e.Kind + " " + e.Trace + " " + string(e.Data) }

// TestChangesAppendEvents: each listed change appends its event, and no other change does. An event
// without its own trace has that of the transaction.
func TestChangesAppendEvents(t *testing.T) {
	const id = "ID" // stands for the row's id
	type change struct {
		name string
		args []any // after the id
		want string
	}
	for name, story := range map[string][]change{
		"activity": {
			{"AddActivity", nil, `activity trace {"agent":"ada","surface":"hb","skill":"look","status":"error","duration_ms":12,"execution_id":"ID","model":"m","summary":"It looked","tokens":7,"cost_micro_usd":41000}`},
			{"AddBareActivity", nil, `activity trace {"agent":"ada","surface":"op","status":"success"}`},
		},
		"execution": {
			{"AddExecution", nil, `execution.started trace {"agent":"ada","surface":"hb","subject":"objective:1","status":"running"}`},
			{"SpendExecution", nil, ""},
			{"SetExecution", []any{"running"}, ""},
			{"SetExecution", []any{"parked"}, `execution.parked trace {"agent":"ada","surface":"hb","subject":"objective:1","status":"parked"}`},
			{"SetExecution", []any{"running"}, `execution.resumed trace {"agent":"ada","surface":"hb","subject":"objective:1","status":"running"}`},
			{"SetExecution", []any{"waiting"}, `execution.waiting trace {"agent":"ada","surface":"hb","subject":"objective:1","status":"waiting"}`},
			{"SetExecution", []any{"completed"}, `execution.completed trace {"agent":"ada","surface":"hb","subject":"objective:1","status":"completed"}`},
		},
		"execution that ended": {
			{"AddEnded", nil, `execution.completed trace {"agent":"ada","surface":"hb","subject":"heartbeat","status":"completed"}`},
		},
		"step": {
			{"AddExecution", nil, `execution.started trace {"agent":"ada","surface":"hb","subject":"objective:1","status":"running"}`},
			{"AddStep", []any{"result"}, `step trace {"execution_id":"ID","step":3,"kind":"result","status":"succeeded","call":"3.1","skill":"look"}`},
		},
		"note": {
			{"AddExecution", nil, `execution.started trace {"agent":"ada","surface":"hb","subject":"objective:1","status":"running"}`},
			{"AddStep", []any{"note"}, ""},
		},
		"thread": {
			{"AddThread", nil, `thread.opened mine {"channel":"log"}`},
			{"LockThread", []any{true}, `thread.locked mine {"channel":"log","holder":"ID"}`},
			{"LockThread", []any{true}, ""},
			{"LockThread", []any{false}, `thread.unlocked mine {"channel":"log"}`},
			{"AddMessage", nil, `message.received mine {"thread_id":"ID","role":"user"}`},
		},
		"message": {
			{"AddOutgoing", []any{"queued"}, `message.queued trace {"thread_id":"one","status":"queued"}`},
			{"SetOutgoing", []any{"ready"}, ""},
			{"SetOutgoing", []any{"failed"}, `message.failed trace {"thread_id":"one","status":"failed"}`},
		},
		"budget": {
			{"AddBudget", nil, `budget.created mine {"scope":"global","scope_id":"","allocated":100}`},
			{"SpendBudget", nil, ""},
			{"SetBudget", nil, `budget.changed mine {"scope":"global","scope_id":"","allocated":200}`},
		},
		"heal": {
			{"AddHeal", nil, `heal.applied trace {"skill":"look","status":"active","code":"theirs"}`},
			{"SetHeal", []any{"undone"}, `heal.undone trace {"skill":"look","status":"undone","code":"theirs"}`},
		},
		"kill switch": {
			{"AddSwitch", nil, `kill_switch.set mine {"scope":"skill","target":"look","by":"ann"}`},
			{"ReleaseSwitch", nil, `kill_switch.released mine {"scope":"skill","target":"look","by":"bob"}`},
		},
		"lane": {
			{"AddLane", nil, ""},
			{"WantLane", nil, `lane.wanted trace {"holder":"ann","wanted_by":"bob"}`},
			{"WantLane", nil, ""},
		},
		"approval": {
			{"AddApproval", nil, `approval.requested trace {"agent":"ada","surface":"hb","skill":"pay","status":"pending","execution_id":"ID"}`},
			{"SetApproval", []any{"approved"}, `approval.approved trace {"agent":"ada","surface":"hb","skill":"pay","status":"approved","execution_id":"ID","by":"user:bob"}`},
			{"SetApproval", []any{"executed"}, `approval.executed trace {"agent":"ada","surface":"hb","skill":"pay","status":"executed","execution_id":"ID","by":"user:bob"}`},
		},
		"skill": {
			{"AddSkill", []any{true, nil}, ""},
			{"SetSkill", []any{true, nil}, ""},
			{"SetSkill", []any{false, "self_healing"}, `skill.disabled mine {"name":"look","by":"self_healing"}`},
			{"SetSkill", []any{false, "human"}, ""},
			{"SetSkill", []any{true, nil}, `skill.enabled mine {"name":"look"}`},
		},
		"built-in skill": {
			{"AddSkill", []any{false, "human"}, `skill.disabled mine {"name":"look","by":"human"}`},
		},
		"automation": {
			{"AddAutomation", nil, ""},
			{"SetAutomation", []any{false, "human"}, `automation.disabled mine {"name":"nightly","by":"human"}`},
			{"SetAutomation", []any{true, nil}, `automation.enabled mine {"name":"nightly"}`},
		},
		"objective": {
			{"AddObjective", nil, `objective.created mine {"title":"Grow","status":"active","priority":5}`},
			{"SetObjective", []any{"paused"}, `objective.paused mine {"title":"Grow","status":"paused","priority":5}`},
			{"SetObjective", []any{"active"}, `objective.resumed mine {"title":"Grow","status":"active","priority":5}`},
			{"SetObjective", []any{"completed"}, `objective.completed mine {"title":"Grow","status":"completed","priority":5}`},
		},
		"memory": {
			{"SaveMemory", nil, `memory.saved trace {"agent":"ada","category":"fact","importance":5}`},
			{"SaveMemory", nil, ""},
			{"ForgetMemory", nil, `memory.forgotten mine {"agent":"ada","category":"fact","importance":9}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w world) {
				q := changesOf(t)
				start, own := w.now(t), uuid.NewString()
				var want []string
				for _, c := range story {
					row := own
					if c.name == "AddBareActivity" {
						row = uuid.NewString()
					}
					var n int64
					err := w.DB.Tx(trace.With(t.Context(), "mine"), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
						n, err = tx.Exec(ctx, q[c.name], append([]any{row}, c.args...)...)
						return err
					})
					if err != nil || n != 1 {
						t.Fatalf("%s %v: %d rows, %v", c.name, c.args, n, err)
					}
					if c.want != "" {
						want = append(want, c.want)
					}
				}
				w.add(t, "end", "end")
				found, _ := w.settled(t, start, len(want)+1)
				if end := found[len(want)]; end.Trace != "" {
					t.Errorf("an event of no trace bears %s", end.Trace)
				}
				found = found[:len(want)]
				var got []string
				for _, e := range found {
					if uuid.Validate(e.Subject) != nil || time.Since(e.CreatedAt).Abs() > time.Minute {
						t.Errorf("%s: subject %q, at %s", e.Kind, e.Subject, e.CreatedAt)
					}
					got = append(got, strings.ReplaceAll(told(e), own, id))
				}
				if diff := cmp.Diff(normal(want), normal(got)); diff != "" {
					t.Errorf("(- want, + got):\n%s", diff)
				}
			})
		})
	}
}

// TestAWorkspaceCanGo: a workspace is deleted with all its rows and events.
func TestAWorkspaceCanGo(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		q := changesOf(t)
		if _, err := w.DB.Exec(t.Context(), w.Workspace, q["SaveMemory"], uuid.NewString()); err != nil {
			t.Fatal(err)
		}
		if n, err := w.DB.Exec(t.Context(), w.Workspace, q["DeleteWorkspace"]); err != nil || n != 1 {
			t.Fatalf("%d rows, %v", n, err)
		}
		if found, _ := w.read(t, event.Cursor{}, nil, 10); len(found) > 0 {
			t.Errorf("left: %v", subjects(found))
		}
	})
}

// changesOf returns the statements by name.
func changesOf(t testing.TB) map[string]db.Query {
	t.Helper()
	var c changes
	dbtest.Load(t, "testdata/sources", &c)
	all := map[string]db.Query{}
	for _, q := range []db.Query{
		c.AddActivity, c.AddBareActivity, c.AddExecution, c.SetExecution, c.SpendExecution, c.AddEnded, c.AddApproval, c.SetApproval,
		c.AddSkill, c.SetSkill,
		c.AddAutomation, c.SetAutomation, c.AddObjective, c.SetObjective, c.SaveMemory, c.ForgetMemory, c.DeleteWorkspace,
		c.AddStep, c.AddThread, c.LockThread, c.AddMessage, c.AddOutgoing, c.SetOutgoing, c.AddBudget, c.SpendBudget, c.SetBudget,
		c.AddHeal, c.SetHeal, c.AddSwitch, c.ReleaseSwitch, c.AddLane, c.WantLane,
	} {
		_, name, _ := strings.Cut(q.Name(), ".")
		all[name] = q
	}
	return all
}

// normal puts the keys of the data into one order and format.
func normal(events []string) (out []string) {
	for _, e := range events {
		head, data, _ := strings.Cut(e, "{")
		var v map[string]any
		if err := json.Unmarshal([]byte("{"+data), &v); err != nil {
			return append(events, err.Error())
		}
		text, _ := json.Marshal(v)
		out = append(out, head+string(text))
	}
	return out
}
