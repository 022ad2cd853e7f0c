package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// TestAnAgentActsForWhatIsItsOwn: an agent reads and ends only its own executions, and begins
// children only of these.
func TestAnAgentActsForWhatIsItsOwn(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		token := minted(t, g.agents, g.Workspace, working, 2)
		ask := func(status int, method, path, body string, into any) {
			t.Helper()
			got := g.call(t, method, path, token, body)
			if got.status != status {
				t.Fatalf("%s %s %s: %d, want %d: %s", method, path, body, got.status, status, got.body)
			}
			if into != nil {
				if err := json.Unmarshal(got.body, into); err != nil {
					t.Fatal(err)
				}
			}
		}
		const executions = "/api/v1/executions"
		stranger := g.begin(t, `{"agent":"stranger"}`)
		for _, wait := range []string{"true", "false"} {
			ask(403, http.MethodPost, executions, `{"agent":"x","parentExecutionId":"`+stranger.ID+`","waitForCompletion":`+wait+`}`, nil)
		}
		ask(404, http.MethodPost, executions, `{"agent":"x","parentExecutionId":"`+ids()+`"}`, nil)
		ask(403, http.MethodGet, executions+"/"+stranger.ID, "", nil)
		ask(403, http.MethodPost, executions+"/"+stranger.ID+"/complete", `{}`, nil)

		var mine, collector begun
		var told struct{ Agent, Status, ParentExecutionID string }
		ask(201, http.MethodPost, executions, `{"agent":"whoever"}`, &mine)
		ask(200, http.MethodGet, executions+"/"+mine.ID, "", &told)
		if told.Agent != working {
			t.Errorf("its own is %+v", told)
		}
		ask(201, http.MethodPost, executions, `{"agent":"collector","parentExecutionId":"`+mine.ID+`","waitForCompletion":true}`, &collector)
		g.must(t, 200, http.MethodGet, executions+"/"+collector.ID, "", &told)
		if told.Agent != "collector" || collector.TraceID != mine.TraceID {
			t.Errorf("the collector's is %+v, %+v", told, collector)
		}

		var held struct{ Token string }
		ask(200, http.MethodPost, "/api/v1/lanes/mine/acquire", `{"holder":"me","ttlSeconds":60}`, &held)
		ask(200, http.MethodPost, "/api/v1/lanes/mine/renew", `{"token":"`+held.Token+`","ttlSeconds":60}`, nil)
		ask(200, http.MethodGet, "/api/v1/lanes/mine/why", "", nil)
		ask(200, http.MethodPost, "/api/v1/lanes/mine/release", `{"token":"`+held.Token+`"}`, nil)
	})
}

// TestIDsInBodies: an id in upper case names the same execution. Other notations of a UUID are
// refused.
func TestIDsInBodies(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var th threadTold
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &th)
		path, e := "/api/v1/threads/"+th.ID, w.begin(t, `{"agent":"a"}`)
		upper := strings.ToUpper(e.ID)
		for _, id := range []string{upper, e.ID} {
			w.must(t, 200, http.MethodPost, path+"/lock", `{"executionId":"`+id+`"}`, &th)
			if th.Lock == nil || th.Lock.ExecutionID != e.ID {
				t.Errorf("locked by %s, it is %+v", id, th)
			}
		}
		w.must(t, 200, http.MethodPost, path+"/send", `{"executionId":"`+upper+`","body":"hello"}`, nil)
		w.must(t, 200, http.MethodPost, path+"/park", `{"executionId":"`+upper+`","afterMessageId":"`+upper+`"}`, nil)
		w.must(t, 200, http.MethodPost, path+"/unlock", `{"executionId":"`+upper+`"}`, nil)
		if child := w.begin(t, `{"agent":"b","parentExecutionId":"`+upper+`"}`); child.TraceID != e.TraceID {
			t.Errorf("the child is %+v", child)
		}
		for _, id := range []string{"urn:uuid:" + e.ID, "{" + e.ID + "}", strings.ReplaceAll(e.ID, "-", ""), ""} {
			for _, do := range []string{"/lock", "/unlock", "/park"} {
				if p := w.refused(t, 422, "invalid", http.MethodPost, path+do, `{"executionId":"`+id+`"}`); !p.at("body.executionId") {
					t.Errorf("%s: %+v", id, p)
				}
			}
			w.refused(t, 422, "invalid", http.MethodPost, path+"/send", `{"executionId":"`+id+`","body":"x"}`)
			w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/executions", `{"agent":"b","parentExecutionId":"`+id+`"}`)
		}
	})
}

// TestParkingLastsAsLongAsTheWorkspaceSays: the workspace limits the parking time. A thread whose
// person has answered already is not parked.
func TestParkingLastsAsLongAsTheWorkspaceSays(t *testing.T) {
	conversing(t, func(t *testing.T, w *world, _ *spoken, _ func()) {
		w.must(t, 200, http.MethodPatch, "/api/v1/workspaces/"+string(w.Workspace), `{"settings":{"threadParkingHours":2}}`, nil)
		var th struct {
			ID   string
			Lock struct {
				ParkedUntil *time.Time
				LockedAt    time.Time
			}
		}
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &th)
		path, e := "/api/v1/threads/"+th.ID, w.begin(t, `{"agent":"a"}`)
		w.must(t, 200, http.MethodPost, path+"/send", `{"executionId":"`+e.ID+`","body":"who are you?"}`, nil)
		for body, want := range map[string]time.Duration{``: 2 * time.Hour, `,"seconds":7200`: 2 * time.Hour, `,"seconds":60`: time.Minute} {
			w.must(t, 200, http.MethodPost, path+"/park", `{"executionId":"`+e.ID+`"`+body+`}`, &th)
			if u := th.Lock.ParkedUntil; u == nil || u.Sub(th.Lock.LockedAt).Round(time.Second) != want {
				t.Errorf("%s parks until %v", body, u)
			}
		}
		if p := w.refused(t, 422, "invalid", http.MethodPost, path+"/park", `{"executionId":"`+e.ID+`","seconds":7201}`); !p.at("body.seconds") {
			t.Errorf("%+v", p.Errors)
		}

		var answered, again struct{ MessageID, ResumedExecutionID string }
		w.must(t, 201, http.MethodPost, path+"/messages", `{"body":"Ada","idempotencyKey":"k"}`, &answered)
		w.refused(t, 409, "answered", http.MethodPost, path+"/park", `{"executionId":"`+e.ID+`"}`)
		w.must(t, 200, http.MethodPost, path+"/park", `{"executionId":"`+e.ID+`","afterMessageId":"`+answered.MessageID+`"}`, nil)
		w.must(t, 201, http.MethodPost, path+"/messages", `{"body":"Ada","idempotencyKey":"k"}`, &again)
		if answered.ResumedExecutionID != e.ID || again.MessageID != answered.MessageID || again.ResumedExecutionID != "" {
			t.Errorf("answered %+v, and again %+v", answered, again)
		}
		w.refused(t, 422, "other_message", http.MethodPost, path+"/messages", `{"body":"Bob","idempotencyKey":"k"}`)
	})
}

// TestWhatIsReadyIsSentAtOnce: only requests that may have made messages ready call Kick.
func TestWhatIsReadyIsSentAtOnce(t *testing.T) {
	conversing(t, func(t *testing.T, w *world, said *spoken, send func()) {
		var th threadTold
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &th)
		path, a, b := "/api/v1/threads/"+th.ID, w.begin(t, `{"agent":"a"}`), w.begin(t, `{"agent":"b"}`)
		w.must(t, 200, http.MethodPost, path+"/lock", `{"executionId":"`+a.ID+`"}`, nil)
		send()
		w.must(t, 202, http.MethodPost, path+"/send", `{"executionId":"`+b.ID+`","body":"from b"}`, nil) // queued: nothing to send
		w.Skew.Advance(thread.Idle + time.Second)
		w.must(t, 200, http.MethodPost, path+"/lock", `{"executionId":"`+b.ID+`"}`, nil)
		send()
		if !slices.Equal(said.bodies, []string{"from b"}) {
			t.Errorf("said is %q", said.bodies)
		}
	})
}

// TestTheLogTellsWhatExecutionsDid: the activity log records the actions of executions, each in its
// trace.
func TestTheLogTellsWhatExecutionsDid(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var th threadTold
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &th)
		path, e := "/api/v1/threads/"+th.ID, w.begin(t, `{"agent":"scout"}`)
		other := w.begin(t, `{"agent":"other"}`)
		w.must(t, 200, http.MethodPost, path+"/send", `{"executionId":"`+e.ID+`","body":"hello"}`, nil)
		w.must(t, 200, http.MethodPost, path+"/park", `{"executionId":"`+e.ID+`"}`, nil)
		w.must(t, 200, http.MethodPost, "/api/v1/executions/"+e.ID+"/fail", `{"reason":"no rain"}`, nil)
		w.refused(t, 409, "ended", http.MethodPost, "/api/v1/executions/"+e.ID+"/complete", `{}`)
		w.must(t, 200, http.MethodPost, "/api/v1/executions/"+other.ID+"/cancel", `{"reason":"too many"}`, nil)
		type row struct{ Agent, Surface, SkillName, Status, ErrorMessage, ExecutionID, ThreadID string }
		told := func(of begun) (rows []row) {
			listed(t, w, "/api/v1/activity?traceId="+of.TraceID, func(r row) string { rows = append(rows, r); return "" })
			slices.Reverse(rows)
			return rows
		}
		if got, want := told(e), []row{
			{"scout", "worker", "execution.begin", "success", "", e.ID, ""},
			{"scout", "worker", "thread.send", "success", "", e.ID, th.ID},
			{"scout", "worker", "execution.park", "success", "", e.ID, th.ID},
			{"scout", "worker", "execution.end", "error", "no rain", e.ID, ""},
		}; !slices.Equal(got, want) {
			t.Errorf("told is %+v", got)
		}
		if got, want := told(other), []row{
			{"other", "worker", "execution.begin", "success", "", other.ID, ""},
			{"other", "worker", "execution.end", "success", "too many", other.ID, ""},
		}; !slices.Equal(got, want) {
			t.Errorf("told is %+v", got)
		}
	})
}
