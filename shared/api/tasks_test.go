package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// taskTold is what the tests read of a task.
type taskTold struct {
	ID, Title, Status, LastError, Summary, StatusReason string
	Cancelled                                           bool
	Priority, Attempt, ProgressPercent, RetryCount      int
	DependsOn, Blocks, Tags                             []string
	InputContext, OutputResult, CheckpointData          json.RawMessage
	NextAttemptAt                                       *time.Time
}

// refusedTask is the problem of a task.
type refusedTask struct {
	Code, Detail, PresentStatus, Order string
	LegalStatuses, Path                []string
}

const agentTasks = "/api/v1/agent-tasks"

// beginAttempt has a task run in a next attempt, as the coordinator does.
func (w *world) beginAttempt(t testing.TB, id string) {
	t.Helper()
	var q struct{ Assign, Attempt, Start, Attempts, AddThread, EditLog, ClearLog, Remove, AllEdges, Happened, AddTask, AddEdge db.Query }
	dbtest.Load(t, "../task/testdata", &q)
	var b db.Batch
	b.Exec(q.Assign, id, uuid.NewString())
	b.Exec(q.Attempt, id)
	b.Exec(q.Start, id)
	if err := w.Env.DB.Do(context.Background(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
}

func TestATaskByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var first, is taskTold
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"first"}`, &first)
		got := w.must(t, 201, http.MethodPost, agentTasks, `{"title":"Write a text","taskType":"writing","priority":8,"maxRetries":0,"tags":["b","a"],
			"inputContext":{"some_key":{"$secret":"k"}},"metadata":{"complexity":3},"dependsOn":["`+strings.ToUpper(first.ID)+`"]}`, &is)
		path := agentTasks + "/" + is.ID
		if is.Status != "PENDING" || is.Priority != 8 || !slices.Equal(is.Tags, []string{"a", "b"}) || !slices.Equal(is.DependsOn, []string{first.ID}) ||
			got.header.Get("Location") != path || string(is.InputContext) != `{"some_key":{"$secret":"k"}}` {
			t.Fatalf("created %+v, %v", is, got.header)
		}
		tag := got.header.Get("ETag")
		if now := w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag"); now != tag {
			t.Errorf("its ETag is %s, then %s", tag, now)
		}
		if got := w.callWith(t, http.MethodPatch, path, member, `{"title":"Write more","estimatedCompletionAt":"2030-01-01T00:00:00Z"}`, "If-Match", tag); got.status != 200 {
			t.Fatalf("a fresh If-Match: %d %s", got.status, got.body)
		}
		for _, stale := range []struct{ method, path, body string }{
			{http.MethodPatch, path, `{"title":"Write less"}`}, {http.MethodPut, path + "/dependencies", `{"dependsOn":[]}`},
		} {
			if got := w.callWith(t, stale.method, stale.path, member, stale.body, "If-Match", tag); got.status != 412 {
				t.Errorf("a stale If-Match: %d %s", got.status, got.body)
			}
		}
		w.must(t, 200, http.MethodPatch, path, `{"estimatedCompletionAt":null}`, nil)
		w.must(t, 200, http.MethodPatch, path, `{"status":"PAUSED"}`, &is)
		var why struct {
			Summary string
			Reasons []struct{ Code, Message, TaskID string }
		}
		if w.must(t, 200, http.MethodGet, path+"/why", "", &why); is.Status != "PAUSED" || why.Reasons[0].Code != "paused" || why.Summary == "" {
			t.Errorf("%+v, %+v", is, why)
		}
		w.must(t, 200, http.MethodPatch, path, `{"status":"PENDING"}`, &is)
		if w.must(t, 200, http.MethodGet, path+"/why", "", &why); why.Reasons[0].Code != "dependency" || why.Reasons[0].TaskID != first.ID ||
			why.Summary != `it waits for task "first" (`+first.ID+`), which is PENDING` {
			t.Errorf("%+v", why)
		}
		var p refusedTask
		if w.must(t, 409, http.MethodPut, agentTasks+"/"+first.ID+"/dependencies", `{"dependsOn":["`+is.ID+`"]}`, &p); p.Code != "dependency_cycle" ||
			!slices.Equal(p.Path, []string{first.ID, is.ID, first.ID}) {
			t.Errorf("a cycle: %+v", p)
		}
		w.must(t, 404, http.MethodPut, path+"/dependencies", `{"dependsOn":["`+somebody+`"]}`, nil)
		w.must(t, 404, http.MethodPost, agentTasks, `{"title":"x","blocks":["`+somebody+`"]}`, nil)
		w.must(t, 404, http.MethodPost, agentTasks, `{"title":"x","threadId":"`+somebody+`"}`, nil)
		w.must(t, 200, http.MethodPut, path+"/dependencies", `{"dependsOn":[]}`, &is)
		for _, verb := range []string{"retry", "archive", "complete"} {
			p = refusedTask{}
			if w.must(t, 409, http.MethodPost, path+"/"+verb, `{}`, &p); p.Code != "illegal_transition" || p.PresentStatus != "PENDING" ||
				!slices.Equal(p.LegalStatuses, []string{"ASSIGNED", "PAUSED", "ABORTED", "FAILED"}) {
				t.Errorf("%s: %+v", verb, p)
			}
		}
		w.beginAttempt(t, is.ID)
		w.must(t, 200, http.MethodPatch, path+"/progress", `{"attempt":1,"progressPercent":40,"currentStep":"reads","checkpointData":{"at_page":3}}`, &is)
		if is.ProgressPercent != 40 || is.Status != "RUNNING" || string(is.CheckpointData) != `{"at_page":3}` {
			t.Errorf("%+v", is)
		}
		p = refusedTask{}
		if w.must(t, 409, http.MethodPost, path+"/complete", `{"attempt":2}`, &p); p.Code != "stale_attempt" || p.Order != "cancel" {
			t.Errorf("another attempt: %+v", p)
		}
		w.must(t, 409, http.MethodPatch, path+"/progress", `{"attempt":2,"progressPercent":50}`, nil) // said again, logged once
		noted := func() int {
			return len(listed(t, w, "/api/v1/activity?skill=task.progress", func(struct{}) string { return "" }))
		}
		before := noted()
		tag = w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag")
		w.must(t, 200, http.MethodPatch, path+"/progress", `{"attempt":1,"progressPercent":40,"checkpointData":{"at_page":3}}`, &is)
		if now := w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag"); before != 1 || noted() != before || now != tag || is.ProgressPercent != 40 {
			t.Errorf("progress that changes nothing: %d, then %d activities, %s, then %s", before, noted(), tag, now)
		}
		w.must(t, 200, http.MethodPost, path+"/fail", `{"attempt":1,"error":"it broke","stackTrace":"line 1"}`, &is)
		if is.Status != "FAILED" || is.LastError != "it broke" {
			t.Errorf("%+v", is)
		}
		w.must(t, 200, http.MethodPost, path+"/retry", `{}`, &is)
		w.beginAttempt(t, is.ID)
		w.must(t, 200, http.MethodPost, path+"/complete", `{"outputResult":{"some_text":"x"},"summary":"all of it"}`, &is)
		if is.Status != "COMPLETED" || is.Attempt != 2 || string(is.OutputResult) != `{"some_text":"x"}` || is.Summary != "all of it" {
			t.Errorf("%+v", is)
		}
		w.must(t, 200, http.MethodPost, path+"/archive", `{}`, &is)
		p = refusedTask{}
		w.must(t, 409, http.MethodPost, path+"/retry", `{}`, &p)
		if p.PresentStatus != "ARCHIVED" || p.LegalStatuses == nil || len(p.LegalStatuses) != 0 {
			t.Errorf("an archived task leads to no other status: %+v", p)
		}
		w.must(t, 200, http.MethodPost, agentTasks+"/"+first.ID+"/cancel", `{"reason":"enough"}`, &first)
		if is.Status != "ARCHIVED" || first.Status != "ABORTED" || !first.Cancelled || first.StatusReason != "enough" {
			t.Errorf("%+v, %+v", is, first)
		}
		type line struct{ Event, PreviousStatus, NewStatus, Actor, StackTrace string }
		told := listed(t, w, path+"/logs?limit=2", func(l line) string {
			return fmt.Sprintf("%s %s>%s %s%s", l.Event, l.PreviousStatus, l.NewStatus, l.Actor, l.StackTrace)
		})
		if want := []string{
			"state_transition COMPLETED>ARCHIVED local:owner", "state_transition RUNNING>COMPLETED local:owner", "state_transition FAILED>PENDING local:owner",
			"state_transition RUNNING>FAILED local:ownerline 1", "conflict > local:owner", "checkpoint > local:owner", "state_transition PAUSED>PENDING local:owner",
			"state_transition PENDING>PAUSED local:owner", "created >PENDING local:owner",
		}; !slices.Equal(told, want) {
			t.Errorf("the log tells %q, want %q", told, want)
		}
		errorsOnly := listed(t, w, path+"/logs?level=ERROR&event=state_transition", func(l line) string { return l.NewStatus })
		if !slices.Equal(errorsOnly, []string{"FAILED"}) {
			t.Errorf("its errors: %q", errorsOnly)
		}
	})
}

func TestTasksAreFiltered(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for i := range 10 {
			w.must(t, 201, http.MethodPost, agentTasks, fmt.Sprintf(`{"title":"No. %d","priority":%d,"tags":["all","t%d"],"inputContext":{"a":1}}`, i, i+1, i%2), nil)
		}
		for query, want := range map[string]string{
			"?priority>=8&limit=2":                                  "9 8 7",
			"?priority<=3&sort=createdAt&limit=2":                   "0 1 2",
			"?priority%3E%3D8":                                      "9 8 7",
			"?priority%3E=8&priority%3C=9":                          "8 7",
			"?minPriority=4&maxPriority=5&sort=-priority":           "4 3",
			"?priority=4":                                           "3",
			"?tags=all,t1&priority>=7&sort=-priority&limit=1":       "9 7",
			"?search=no.+4":                                         "4",
			"?status=RUNNING":                                       "",
			"?createdBefore=2020-01-01T00:00:00Z":                   "",
			"?createdAfter=2020-01-01T00:00:00%2B02:00&priority<=1": "0",
			"?agentId=" + somebody:                                  "",
			"?threadId=" + somebody:                                 "",
			"?taskType=none":                                        "",
		} {
			titles := listed(t, w, agentTasks+query, func(is taskTold) string {
				if is.InputContext != nil {
					t.Errorf("%s: the listing has the input", query)
				}
				return strings.TrimPrefix(is.Title, "No. ")
			})
			if got := strings.Join(titles, " "); got != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
		var list struct{ Items []taskTold }
		if w.must(t, 200, http.MethodGet, agentTasks+"?priority>=8&tags=t1", "", &list); len(list.Items) != 2 || list.Items[0].Priority != 10 {
			t.Errorf("the literal comparison: %+v", list.Items)
		}
		for _, query := range []string{
			"?priority>=11", "?priority>=x", "?priority>8", "?priority>=8&minPriority=8", "?status=none", "?limit>=5", "?sort=title", "?cursor=x",
			"?priority=4&minPriority=2", "?agentId=x", "?createdAfter=yesterday",
		} {
			w.must(t, 422, http.MethodGet, agentTasks+query, "", nil)
		}
	})
}

// TestAReportThatIsSaidAgainHearsHowTheTaskIs: its first answer may have been lost.
func TestAReportThatIsSaidAgainHearsHowTheTaskIs(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for verb, want := range map[string]string{"complete": "COMPLETED", "fail": "FAILED"} {
			var is taskTold
			w.must(t, 201, http.MethodPost, agentTasks, `{"title":"x","maxRetries":0}`, &is)
			w.beginAttempt(t, is.ID)
			path, body := agentTasks+"/"+is.ID+"/"+verb, map[string]string{"complete": `{"attempt":1}`, "fail": `{"attempt":1,"error":"x"}`}[verb]
			w.must(t, 200, http.MethodPost, path, body, nil)
			var p refusedTask
			if w.must(t, 409, http.MethodPost, path, body, &p); p.Code != "stale_attempt" || p.Order != "cancel" || p.PresentStatus != want ||
				!strings.HasPrefix(p.Detail, "attempt 1 is over, and the task is "+want) {
				t.Errorf("%s, said again: %+v", verb, p)
			}
		}
	})
}

// TestATaskIsCreatedOnce: a repeated request gets the first answer.
func TestATaskIsCreatedOnce(t *testing.T) {
	w := onOne(t)
	var ids []string
	for range 2 {
		got := w.callWith(t, http.MethodPost, agentTasks, member, `{"title":"once"}`, "Idempotency-Key", "k")
		var is taskTold
		if err := json.Unmarshal(got.body, &is); err != nil || got.status != 201 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		ids = append(ids, is.ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("two tasks: %q", ids)
	}
	w.must(t, 422, http.MethodPost, agentTasks, `{"title":"x","status":"RUNNING"}`, nil)
	w.must(t, 422, http.MethodPost, agentTasks, `{"title":""}`, nil)
	w.must(t, 422, http.MethodPost, agentTasks, `{"title":"x","inputContext":[]}`, nil)
	w.must(t, 422, http.MethodPatch, agentTasks+"/"+ids[0], `{"status":"RUNNING"}`, nil)
	w.must(t, 422, http.MethodPatch, agentTasks+"/"+ids[0], `{"inputContext":{}}`, nil)
}
