package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// operated returns the operations of an admin with the demo model. They do not log where the API does.
func operated(d api.Deps) *operate.Operate {
	d.Reason.Model = demo.New()
	silent := *d.Parts
	return &operate.Operate{Runner: &turn.Runner{Parts: &silent, Kinds: []turn.Kind{operate.Kind()}}}
}

func TestASkillIsRunByHand(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var ran struct {
			Status, ExecutionID, TraceID string
			Output                       json.RawMessage
		}
		w.must(t, 200, http.MethodPost, "/api/v1/skills/look/run", `{"input":{}}`, &ran)
		if ran.Status != "succeeded" || string(ran.Output) != "null" || !strings.HasPrefix(ran.TraceID, "op_") {
			t.Errorf("got %+v", ran)
		}
		var s story
		w.must(t, 200, http.MethodGet, "/api/v1/traces/"+ran.TraceID, "", &s)
		if s.Status != "completed" || len(s.Executions) != 1 || s.Executions[0].ID != ran.ExecutionID || len(s.Activities) != 1 || s.Activities[0].SkillName != "look" {
			t.Errorf("its story is %+v", s)
		}
		w.refused(t, 404, "not_found", http.MethodPost, "/api/v1/skills/nothing/run", `{}`)
		w.asksByKey(t)
		if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/skills/look/run", `{"input":[1]}`); !p.at("body.input") {
			t.Errorf("got %+v", p)
		}
		w.must(t, 200, http.MethodPost, "/api/v1/skills/look/disable", `{"reason":"broken"}`, nil)
		w.refused(t, 409, "disabled", http.MethodPost, "/api/v1/skills/look/run", `{}`)
	})
}

// asksByKey calls a skill that requires approval with an API key, in each possible way. All calls
// are refused. A person's call counts as approved.
func (w *world) asksByKey(t *testing.T) {
	t.Helper()
	w.must(t, 201, http.MethodPost, automationsPath, `{"name":"guarded","skill":"look","schedule":{"cron":"@daily"}}`, nil)
	more, err := skill.Skills() // run_skill is one of them
	if err != nil {
		t.Fatal(err)
	}
	keyed := newWorld(t, w.Env, func(d *api.Deps) {
		d.Auth = auth.New(tokens(w.Workspace), d.People.VerifyKey)
		d.Registry = registry(t, d.DB, more...)
		d.Operate = operated(*d)
	})
	var key struct{ Key string }
	if err := json.Unmarshal(keyed.call(t, http.MethodPost, "/api/v1/api-keys", admin, `{"name":"ci","role":"ADMIN","scopes":["*"]}`).body, &key); err != nil {
		t.Fatal(err)
	}
	calls := map[string]string{
		"/api/v1/skills/look/run": `{}`, "/api/v1/skills/run_skill/run": `{"input":{"skill":"look"}}`, automationsPath + "/guarded/run": "",
	}
	for _, require := range []bool{true, false} {
		w.must(t, 200, http.MethodPatch, "/api/v1/skills/look", fmt.Sprintf(`{"requiresApproval":%v}`, require), nil)
		for path, body := range calls {
			var p problem
			got := keyed.call(t, http.MethodPost, path, key.Key, body)
			_ = json.Unmarshal(got.body, &p)
			if require && (got.status != 409 || p.Code != "needs_approval") || !require && got.status != 200 {
				t.Errorf("%s by a key, requiring approval %v: %d %s", path, require, got.status, got.body)
			}
			if got := keyed.call(t, http.MethodPost, path, admin, body); require && got.status != 200 {
				t.Errorf("%s by a person: %d %s", path, got.status, got.body)
			}
		}
	}
}

// beatenTrace returns the trace of a heartbeat that made a plan and took its first step.
func beatenTrace(t *testing.T, w *world) (_ *world, id string) {
	t.Helper()
	w = newWorld(t, w.Env, func(d *api.Deps) {
		h, objectives := realBeat(t, d)
		d.Beat, d.Operate.Skills = h.Run, h.Skills
		d.Kick = func(ws db.Workspace) {
			s := outbox.Sender{Store: d.Approvals.Outbox, Handlers: map[string]outbox.Handler{turn.Topic: d.Operate}, Log: slog.New(slog.DiscardHandler)}
			if sent, err := s.Drain(t.Context(), ws, 10); err != nil || sent.Sent != 1 {
				t.Errorf("sent %+v, %v", sent, err)
			}
		}
		var b db.Batch
		objectives.Create(&b, objective.Objective{Title: "Write a welcome text", Priority: 5, CreatedBy: "test"})
		if err := w.Env.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
	})
	var done struct {
		TraceID string
		Report  heartbeat.Report
	}
	w.must(t, 200, http.MethodPost, "/api/v1/heartbeat/run", `{"wait":true}`, &done)
	return w, done.TraceID
}

type replayed struct {
	Executions []struct {
		ExecutionID string
		Steps       []struct {
			Step    int
			Same    bool
			Differs []string
		}
	}
	Differences int
}

func TestATraceIsReplayed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w, id := beatenTrace(t, w)
		var same replayed
		w.must(t, 200, http.MethodPost, "/api/v1/traces/"+id+"/replay", `{}`, &same)
		if len(same.Executions) != 3 || same.Differences != 0 || len(same.Executions[0].Steps) < 2 {
			t.Fatalf("the same again is %+v", same)
		}
		var other replayed
		w.must(t, 200, http.MethodPost, "/api/v1/traces/"+id+"/replay", `{"system":"You chat.","executionId":"`+strings.ToUpper(same.Executions[0].ExecutionID)+`"}`, &other)
		if len(other.Executions) != 1 || other.Differences == 0 {
			t.Errorf("with another prompt it is %+v", other)
		}
		w.refused(t, 404, "not_found", http.MethodPost, "/api/v1/traces/hb_0mh8c1v2q_a7x2p1k9d4/replay", `{}`)
		if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/traces/"+id+"/replay", `{"persona":"nobody"}`); !p.at("body.persona") {
			t.Errorf("an unknown persona: %+v", p)
		}
		one := strings.ToUpper(same.Executions[0].ExecutionID)
		w.must(t, 200, http.MethodPost, "/api/v1/traces/"+id+"/replay", `{"executionId":"`+one+`"}`, nil)
		p := w.refused(t, 404, "not_found", http.MethodPost, "/api/v1/traces/"+id+"/replay", `{"executionId":"`+ids()+`"}`)
		if !strings.Contains(p.Detail, "executionId") {
			t.Errorf("an unknown execution: %+v", p)
		}
		w.Operate.Reason.Switches = func(context.Context, db.Workspace) (reason.Halts, error) {
			return halt.Switches{{Scope: halt.Model, Target: "other"}}, nil
		}
		w.must(t, 200, http.MethodPost, "/api/v1/traces/"+id+"/replay", `{}`, nil)
		w.refused(t, 409, "halted", http.MethodPost, "/api/v1/traces/"+id+"/replay", `{"model":"other"}`)
		w.Operate.Reason.Meter = broke{}
		w.refused(t, 409, "insufficient", http.MethodPost, "/api/v1/traces/"+id+"/replay", `{}`)
	})
}

// broke is a meter without budget.
type broke struct{}

func (broke) Reserve(context.Context, reason.Cost) (int, reason.Settle, error) {
	return 0, nil, &reason.SpentError{Why: "all gone"}
}

func TestATraceIsForked(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w, id := beatenTrace(t, w)
		if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/traces/"+id+"/fork", `{"step":2}`); !p.at("body.executionId") {
			t.Errorf("of two runs: %+v", p)
		}
		var r replayed
		w.must(t, 200, http.MethodPost, "/api/v1/traces/"+id+"/replay", `{}`, &r)
		run := r.Executions[0]
		var forked struct{ ExecutionID, TraceID string }
		body := `{"step":` + "2" + `,"executionId":"` + strings.ToUpper(run.ExecutionID) + `","edits":{"message":"Say it shorter.","results":[{"call":"1.1","content":"done"}]}}`
		w.must(t, 202, http.MethodPost, "/api/v1/traces/"+id+"/fork", body, &forked)
		if forked.TraceID != id || forked.ExecutionID == run.ExecutionID {
			t.Errorf("got %+v", forked)
		}
		e, err := w.Runs.Get(t.Context(), w.Workspace, forked.ExecutionID)
		if err != nil || !e.Status.Ended() || e.Parent != run.ExecutionID {
			t.Errorf("the fork is %+v, %v", e, err)
		}
		unknown := `{"step":2,"executionId":"` + run.ExecutionID + `","edits":{"persona":"nobody"}}`
		if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/traces/"+id+"/fork", unknown); !p.at("body.edits.persona") {
			t.Errorf("an unknown persona: %+v", p)
		}
		w.refused(t, 404, "not_found", http.MethodPost, "/api/v1/traces/"+id+"/fork", `{"step":2,"executionId":"`+ids()+`"}`)
		for step, want := range map[string]int{`{"step":99,"executionId":"`: 422, `{"step":0,"executionId":"`: 422} {
			w.refused(t, want, "invalid", http.MethodPost, "/api/v1/traces/"+id+"/fork", step+run.ExecutionID+`"}`)
		}
	})
}

// TestAPersonaThatIsNotThere is what a replay and a fork are refused for, and not the trace.
func TestAPersonaThatIsNotThere(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w, id := beatenTrace(t, w)
		path := "/api/v1/traces/" + id
		var r replayed
		w.must(t, 200, http.MethodPost, path+"/replay", `{}`, &r)
		if p := w.refused(t, 422, "invalid", http.MethodPost, path+"/replay", `{"persona":"nobody"}`); !p.at("body.persona") {
			t.Errorf("replay: %+v", p.Errors)
		}
		body := `{"step":1,"executionId":"` + r.Executions[0].ExecutionID + `","edits":{"persona":"nobody"}}`
		if p := w.refused(t, 422, "invalid", http.MethodPost, path+"/fork", body); !p.at("body.edits.persona") {
			t.Errorf("fork: %+v", p.Errors)
		}
	})
}
