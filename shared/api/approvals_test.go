package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// greet is a skill that requires approval.
var greet = skill.Skill{
	Name: "greet", RequiresApproval: true,
	Parameters: []byte(`{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20, "pattern": "^[a-z]*$"}, "times": {"type": "integer", "maximum": 5},
		"mail": {"type": "string", "format": "email"}, "list": {"type": "array", "items": {"enum": ["a", "b"]}}}, "required": ["name"], "additionalProperties": false}`),
	Run: func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
		var in struct{ Name string }
		if err := json.Unmarshal(c.Arguments, &in); err != nil {
			return nil, err
		}
		return "Hello, " + in.Name, nil
	},
}

func approvals(t testing.TB, d *db.DB, log *activity.Log) *approval.Store {
	t.Helper()
	workspaces, err1 := workspace.New(d)
	box, err2 := outbox.New(d, ids, func() float64 { return 0 })
	s, err3 := approval.New(approval.Deps{DB: d, Workspaces: workspaces, Outbox: box, Activity: log, IDs: ids, Skills: onlyGreet})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return s
}

func onlyGreet(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) {
	return skill.NewSet(greet)
}

// waits stores a call of greet that waits for approval.
func (w *world) waits(t testing.TB, name string) (id string) {
	t.Helper()
	request := lane.Request{Workspace: w.Workspace, Lane: lane.Heartbeat, Holder: "test"}
	err := w.Lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
		return w.Lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) (err error) {
			id, err = w.Approvals.Request(ctx, tx, approval.Approval{
				Skill: "greet", Arguments: json.RawMessage(fmt.Sprintf(`{"name":%q}`, name)), Why: "the skill requires approval",
				Execution: ids(), Call: "2.1", Agent: activity.Operator, Surface: trace.Heartbeat, Trace: w.Traces.New(trace.Heartbeat),
			})
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

type approvalBody struct {
	ID, Status, Skill, Why, Reason, Error, Agent, Surface, ExecutionID, CallID, TraceID, DecidedBy string
	Input, EditedInput, Result                                                                     json.RawMessage
	RequestedAt, ExpiresAt                                                                         time.Time
	DecidedAt, ExecutedAt                                                                          *time.Time
}

func approvalsPath(id, verb string) string {
	return strings.TrimSuffix("/api/v1/approvals/"+id+"/"+verb, "/")
}

func compact(raw json.RawMessage) string { return strings.ReplaceAll(string(raw), " ", "") }

// The test follows a call from the wait for approval to its result. The kick of the approval makes
// the call.
func TestApproveByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		kicked := 0
		w = newWorld(t, w.Env, func(d *api.Deps) {
			d.Kick = func(ws db.Workspace) {
				kicked++
				e := &approval.Executor{Store: d.Approvals, Lanes: d.Lanes, Instance: "test", Clock: time.Now, Log: slog.New(slog.DiscardHandler)}
				s := outbox.Sender{Store: d.Approvals.Outbox, Handlers: map[string]outbox.Handler{approval.Topic: e}, Log: e.Log}
				if _, err := s.Drain(t.Context(), ws, 10); err != nil {
					t.Error(err)
				}
			}
		})
		id := w.waits(t, "ada")
		var a approvalBody
		w.must(t, 200, http.MethodGet, approvalsPath(id, ""), "", &a)
		if a.ID != id || a.Status != "pending" || a.Skill != "greet" || a.Why == "" || a.Surface != "heartbeat" || a.CallID != "2.1" || a.ExecutionID == "" ||
			compact(a.Input) != `{"name":"ada"}` || !about(a.ExpiresAt.Sub(a.RequestedAt), 72*time.Hour) || a.DecidedAt != nil || a.TraceID == "" {
			t.Errorf("%+v", a)
		}
		w.must(t, 200, http.MethodPost, approvalsPath(strings.ToUpper(id), "approve"), "", &a)
		if a.Status != "approved" || a.DecidedBy != "local:owner" || a.DecidedAt == nil || kicked != 1 {
			t.Errorf("%+v, kicked %d times", a, kicked)
		}
		w.must(t, 200, http.MethodGet, approvalsPath(id, ""), "", &a)
		if a.Status != "executed" || a.ExecutedAt == nil || string(a.Result) != `"Hello, ada"` {
			t.Errorf("%+v", a)
		}
		id = w.waits(t, "ada")
		w.must(t, 200, http.MethodPost, approvalsPath(id, "approve"), `{"input":{"name":"bob","times":2.0}}`, nil)
		w.must(t, 200, http.MethodGet, approvalsPath(id, ""), "", &a)
		if string(a.Result) != `"Hello, bob"` || compact(a.Input) != `{"name":"ada"}` || compact(a.EditedInput) != `{"name":"bob","times":2}` {
			t.Errorf("%+v", a)
		}
	})
}

func TestRejectByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.waits(t, "ada")
		for _, body := range []string{"", `{"reason":""}`, `{"reason":"` + strings.Repeat("x", 501) + `"}`, `{"reason":1}`} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, approvalsPath(id, "reject"), body); !p.at("body.reason") && !p.at("body") {
				t.Errorf("%s: %+v", body, p)
			}
		}
		var a approvalBody
		w.must(t, 200, http.MethodPost, approvalsPath(id, "reject"), `{"reason":"not now"}`, &a)
		if a.Status != "rejected" || a.Reason != "not now" || a.DecidedBy != "local:owner" {
			t.Errorf("%+v", a)
		}
	})
}

func TestWhatIsDecidedIsRefusedByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		approved, rejected, expired := w.waits(t, "a"), w.waits(t, "b"), w.waits(t, "c")
		w.must(t, 200, http.MethodPost, approvalsPath(approved, "approve"), "", nil)
		w.must(t, 200, http.MethodPost, approvalsPath(rejected, "reject"), `{"reason":"no"}`, nil)
		w.Skew.Advance(73 * time.Hour)
		for status, id := range map[string]string{"approved": approved, "rejected": rejected, "expired": expired} {
			for _, verb := range []string{"approve", "reject"} {
				var p struct {
					problem
					PresentStatus string
				}
				w.must(t, 409, http.MethodPost, approvalsPath(id, verb), map[string]string{"reject": `{"reason":"no"}`}[verb], &p)
				if p.Code != "decided" || p.PresentStatus != status || !strings.Contains(p.Detail, status) {
					t.Errorf("%s one that is %s: %+v", verb, status, p)
				}
			}
		}
	})
}

func TestEditedInputIsHeldAgainstTheSchemaByHTTP(t *testing.T) {
	w := onOne(t)
	id := w.waits(t, "ada")
	refuses := func(body string) problem {
		t.Helper()
		got := w.call(t, http.MethodPost, approvalsPath(id, "approve"), owner, body)
		var p problem
		decode(t, got.body, &p)
		if got.status != 422 || strings.Contains(string(got.body), "canary") || strings.Contains(string(got.body), "777") {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
		return p
	}
	p := refuses(`{"input":{"name":"canary CANARY","times":777.5,"mail":"canary@@","list":["a","canary"],"canary!":1}}`)
	want := map[string]bool{
		"body.input.name: expected another format":          true,
		"body.input.times: got number, want integer":        true,
		"body.input.times: maximum: want 5":                 true,
		"body.input.mail: expected another format":          true,
		"body.input.list[1]: value must be one of 'a', 'b'": true,
		"body.input: unexpected property":                   true,
	}
	for _, e := range p.Errors {
		told := e.Location + ": " + e.Message
		if !want[told] {
			t.Errorf("told %s", told)
		}
		delete(want, told)
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
	for body, at := range map[string]string{
		`{"input":null}`: "body.input", `{"input":[]}`: "body.input", `{"input":{}}`: "body.input", `{"input":{"name":"x","times":777}}`: "body.input.times",
		`{"input":{"name":"` + strings.Repeat("x", 21) + `"}}`: "body.input.name", `{"input":{"name":"x","name":"y"}}`: "body.input.name",
		`{"inputs":{}}`: "body.inputs",
	} {
		if p := refuses(body); !p.at(at) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	var a approvalBody
	if w.must(t, 200, http.MethodGet, approvalsPath(id, ""), "", &a); a.Status != "pending" {
		t.Errorf("%+v", a)
	}
}

func TestListApprovals(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type list struct {
			Items      []approvalBody
			NextCursor *string
		}
		if got := w.must(t, 200, http.MethodGet, "/api/v1/approvals", "", nil); string(got.body) != `{"items":[],"nextCursor":null}`+"\n" {
			t.Errorf("none: %s", got.body)
		}
		var all []string
		for range 5 {
			all = append([]string{w.waits(t, "ada")}, all...)
			w.Skew.Advance(time.Second)
		}
		w.must(t, 200, http.MethodPost, approvalsPath(all[0], "reject"), `{"reason":"no"}`, nil)
		var walked []string
		for path := "/api/v1/approvals?limit=2"; path != "" && len(walked) <= 5; {
			var page list
			w.must(t, 200, http.MethodGet, path, "", &page)
			for _, a := range page.Items {
				walked = append(walked, a.ID)
			}
			if path = ""; page.NextCursor != nil {
				path = "/api/v1/approvals?limit=2&cursor=" + *page.NextCursor
			}
		}
		if strings.Join(walked, " ") != strings.Join(all, " ") {
			t.Errorf("page by page: %v, want %v", walked, all)
		}
		var page list
		if w.must(t, 200, http.MethodGet, "/api/v1/approvals?status=rejected", "", &page); len(page.Items) != 1 || page.Items[0].ID != all[0] {
			t.Errorf("rejected: %+v", page)
		}
		if w.must(t, 200, http.MethodGet, "/api/v1/approvals?status=pending", "", &page); len(page.Items) != 4 {
			t.Errorf("pending: %+v", page)
		}
		for query, at := range map[string]string{"cursor=!": "query.cursor", "cursor=MTIueA": "query.cursor", "status=gone": "query.status", "limit=0": "query.limit"} {
			if p := w.refused(t, 422, "invalid", http.MethodGet, "/api/v1/approvals?"+query, ""); !p.at(at) {
				t.Errorf("%s: %+v", query, p)
			}
		}
		for _, path := range []string{"x", "8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4", "urn:uuid:8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"} {
			if p := w.refused(t, 422, "invalid", http.MethodGet, approvalsPath(path, ""), ""); !p.at("path.id") {
				t.Errorf("%s: %+v", path, p)
			}
		}
	})
}

// No text of a violation repeats the value, whatever the value is.
func FuzzMisfits(f *testing.F) {
	for _, s := range []string{"x", "' is not valid email: ", "' does not match pattern 'x", "got x", "a, want b", "minimum: got 1, want 2", "12", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const canary = "canary7"
		input, err := json.Marshal(map[string]any{"name": s + canary + s + "!", "mail": canary + s + canary, "list": []string{s + canary}, canary + s: s})
		if err != nil {
			t.Fatal(err)
		}
		set, err := skill.NewSet(greet)
		if err != nil {
			t.Fatal(err)
		}
		k, _ := set.Find("greet")
		for _, v := range k.Check(t.Context(), input) {
			if told := api.Misfit(v.Problem); strings.Contains(told, canary) {
				t.Errorf("%q is told as %q", v.Problem, told)
			}
		}
	})
}

// TestADeletedObjectiveAsksNobody: what waits of it is rejected, and what waits of others is not.
func TestADeletedObjectiveAsksNobody(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var o struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/objectives", `{"title":"Greet"}`, &o)
		other := w.waits(t, "ada")
		var id string
		request := lane.Request{Workspace: w.Workspace, Lane: lane.Objective(o.ID), Holder: "test"}
		err := w.Lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
			return w.Lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) (err error) {
				id, err = w.Approvals.Request(ctx, tx, approval.Approval{
					Skill: "greet", Arguments: []byte(`{"name":"bob"}`), Execution: ids(), Call: "1", Subject: h.Lane,
					Agent: "flowpilot", Surface: trace.Heartbeat, Trace: w.Traces.New(trace.Heartbeat),
				})
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		w.must(t, 204, http.MethodDelete, "/api/v1/objectives/"+o.ID, "", nil)
		for id, want := range map[string]string{id: "rejected", other: "pending"} {
			var is struct{ Status, Reason, DecidedBy string }
			if w.must(t, 200, http.MethodGet, "/api/v1/approvals/"+id, "", &is); is.Status != want || want == "rejected" && is.Reason != "the objective was deleted" {
				t.Errorf("%+v, want %s", is, want)
			}
		}
	})
}
