package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// reasoned is a task as the board shows it.
type reasoned struct{ ID, Title, ReasonCode, WhySummary string }

// TestTheListOfTasksSaysWhyTheyWait: the list names the reason of each task that waits, by the rules of
// why, is filtered by it, and costs the same for one task and for twenty.
func TestTheListOfTasksSaysWhyTheyWait(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		add := func(body string) (id string) {
			var is taskTold
			w.must(t, 201, http.MethodPost, agentTasks, body, &is)
			return is.ID
		}
		first := add(`{"title":"first"}`)
		after := add(`{"title":"after","dependsOn":["` + first + `"]}`)
		paused := add(`{"title":"paused"}`)
		w.must(t, 200, http.MethodPatch, agentTasks+"/"+paused, `{"status":"PAUSED"}`, nil)
		cancelled := add(`{"title":"cancelled"}`)
		w.must(t, 200, http.MethodPost, agentTasks+"/"+cancelled+"/cancel", `{"reason":"late"}`, nil)
		list := func(query string) []reasoned {
			var got struct{ Items []reasoned }
			w.must(t, 200, http.MethodGet, agentTasks+query, "", &got)
			return got.Items
		}
		want := map[string]string{first: "no_agent", after: "dependency", paused: "paused", cancelled: "cancelled"}
		list("") // the first request of a process reads more
		before := w.Env.DB.Stats()
		found := list("")
		few := w.Env.DB.Stats().Sub(before).Statements
		for _, is := range found {
			var why struct {
				Summary string
				Reasons []struct{ Code string }
			}
			w.must(t, 200, http.MethodGet, agentTasks+"/"+is.ID+"/why", "", &why)
			if is.ReasonCode != want[is.ID] || is.ReasonCode != why.Reasons[0].Code || is.WhySummary != why.Summary {
				t.Errorf("%s waits for %s (%s), and why says %+v", is.Title, is.ReasonCode, is.WhySummary, why)
			}
		}
		for id, code := range want {
			if got := list("?reasonCode=" + code); len(got) != 1 || got[0].ID != id {
				t.Errorf("for %s wait %+v", code, got)
			}
		}
		for i := range 16 {
			add(fmt.Sprintf(`{"title":"another %d","dependsOn":[%q]}`, i, first))
		}
		before = w.Env.DB.Stats()
		if got := list(""); len(got) != 20 {
			t.Errorf("%d tasks", len(got))
		}
		if many := w.Env.DB.Stats().Sub(before).Statements; many != few {
			t.Errorf("%d statements for 20 tasks, %d for 4", many, few)
		}
		var page struct {
			Items      []reasoned
			NextCursor *string
		}
		seen := 0
		for path := agentTasks + "?reasonCode=dependency&limit=5"; path != ""; {
			page.NextCursor = nil
			w.must(t, 200, http.MethodGet, path, "", &page)
			if seen += len(page.Items); page.NextCursor == nil {
				break
			}
			path = agentTasks + "?reasonCode=dependency&limit=5&cursor=" + *page.NextCursor
		}
		if seen != 17 {
			t.Errorf("%d tasks wait for a dependency", seen)
		}
		var g struct {
			Nodes []struct {
				ID, ReasonCode string
				Hops           int
			}
			Edges []struct {
				From, To string
				Blocking bool
			}
			Truncated bool
		}
		w.must(t, 200, http.MethodGet, agentTasks+"/"+after+"/graph?hops=1", "", &g)
		if len(g.Nodes) != 2 || g.Nodes[0].ID != after || g.Nodes[0].ReasonCode != "dependency" || g.Nodes[1].ID != first || g.Nodes[1].Hops != 1 ||
			len(g.Edges) != 1 || g.Edges[0].From != first || g.Edges[0].To != after || !g.Edges[0].Blocking {
			t.Errorf("%+v", g)
		}
		if w.must(t, 200, http.MethodGet, agentTasks+"/"+after+"/graph", "", &g); len(g.Nodes) != 18 || g.Truncated {
			t.Errorf("%d tasks within two hops", len(g.Nodes))
		}
	})
}

// TestWhatAnApprovalIsAbout: an approval tells what it would do, what was decided before, and which call
// it binds; a call that is not the one that was shown is not approved.
func TestWhatAnApprovalIsAbout(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		reject := func(id string) {
			w.must(t, 200, http.MethodPost, approvalsPath(id, "reject"), `{"reason":"no"}`, nil)
		}
		reject(w.waits(t, "ada"))
		reject(w.waits(t, "bob"))
		id := w.waits(t, "eve")
		var list struct {
			Items []struct {
				ID, Title, InputDigest string
				Outside                bool
				Untrusted              []struct{ What string }
				History                struct{ Approved, Rejected, Edited int }
			}
		}
		w.must(t, 200, http.MethodGet, "/api/v1/approvals?status=pending&skill=greet", "", &list)
		if len(list.Items) != 1 {
			t.Fatalf("%+v", list)
		}
		a := list.Items[0]
		if a.ID != id || a.Title != "Greet: name eve" || a.History.Rejected != 2 || a.History.Approved != 0 || a.InputDigest == "" || a.Untrusted == nil {
			t.Errorf("%+v", a)
		}
		if w.must(t, 200, http.MethodGet, "/api/v1/approvals?agent=nobody", "", &list); len(list.Items) != 0 {
			t.Errorf("%+v", list)
		}
		w.refused(t, 409, "digest_changed", http.MethodPost, approvalsPath(id, "approve"), `{"digest":"another"}`)
		w.must(t, 200, http.MethodPost, approvalsPath(id, "approve"), `{"digest":"`+a.InputDigest+`"}`, nil)
		if w.must(t, 200, http.MethodGet, "/api/v1/approvals/"+id, "", &a); a.History.Rejected != 2 || a.History.Approved != 0 {
			t.Errorf("the call counts itself: %+v", a.History)
		}
		if w.must(t, 200, http.MethodGet, "/api/v1/approvals?status=rejected&skill=greet", "", &list); len(list.Items) != 2 ||
			list.Items[1].History.Rejected != 1 || list.Items[1].History.Approved != 1 {
			t.Errorf("a rejected call counts itself: %+v", list.Items)
		}
	})
}

// TestFailures: what failed is listed until it is dismissed, and again once it fails anew.
func TestFailures(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var is taskTold
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"broken","maxRetries":0}`, &is)
		fail := func(attempt int) {
			w.beginAttempt(t, is.ID)
			w.must(t, 200, http.MethodPost, agentTasks+"/"+is.ID+"/fail", fmt.Sprintf(`{"attempt":%d,"error":"it broke"}`, attempt), nil)
		}
		fail(1)
		var run begun
		w.must(t, 201, http.MethodPost, "/api/v1/executions", `{"agent":"ada"}`, &run)
		w.must(t, 200, http.MethodPost, "/api/v1/executions/"+run.ID+"/fail", `{"reason":"no model"}`, nil)
		at := map[string]string{}
		list := func() (kinds []string) {
			var got struct {
				Items []struct{ Kind, ID, Title, Why, At string }
			}
			w.must(t, 200, http.MethodGet, "/api/v1/failures", "", &got)
			for _, f := range got.Items {
				at[f.Kind] = `{"at":"` + f.At + `"}`
				kinds = append(kinds, f.Kind+": "+f.Title+": "+f.Why)
			}
			return kinds
		}
		if got := list(); !slices.Equal(got, []string{"execution: worker: ada: no model", "task: broken: it broke"}) {
			t.Errorf("%q", got)
		}
		path := "/api/v1/failures/task/" + is.ID + "/dismiss"
		shown := at["task"]
		w.must(t, 422, http.MethodPost, path, `{}`, nil)
		w.must(t, 204, http.MethodPost, path, shown, nil)
		w.must(t, 404, http.MethodPost, "/api/v1/failures/message/"+is.ID+"/dismiss", shown, nil)
		if got := list(); len(got) != 1 {
			t.Errorf("dismissed: %q", got)
		}
		w.must(t, 200, http.MethodPost, agentTasks+"/"+is.ID+"/retry", `{}`, nil)
		fail(2)
		if got := list(); len(got) != 2 {
			t.Errorf("failed again: %q", got)
		}
		w.refused(t, 409, "failed_again", http.MethodPost, path, shown)
		if got := list(); len(got) != 2 {
			t.Errorf("what nobody has seen was dismissed: %q", got)
		}
	})
}

// TestWhatAKillSwitchEndsDidNotFail: nobody has to look at a turn that was refused because the workspace is stopped.
func TestWhatAKillSwitchEndsDidNotFail(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.must(t, 201, http.MethodPost, "/api/v1/kill-switches", `{"scope":"workspace"}`, nil)
		var end turned
		w.must(t, 200, http.MethodPost, operatePath, `{"message":"Hello."}`, &end)
		if end.Status != "failed" || !strings.Contains(end.Reason, "kill switch") {
			t.Errorf("it ended as %+v", end)
		}
		if got := listed(t, w, "/api/v1/failures", func(f struct{ Title string }) string { return f.Title }); len(got) != 0 {
			t.Errorf("failures: %q", got)
		}
	})
}

// TestOfASubjectTheLatestEndFails: what fails again and again is one failure, also while it is tried
// again, and none once it succeeds.
func TestOfASubjectTheLatestEndFails(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		run := func(as execution.Status) {
			t.Helper()
			err := w.Lanes.Do(t.Context(), lane.Request{Workspace: w.Workspace, Lane: "x", Holder: "test"}, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
				e := execution.Execution{ID: ids(), Agent: "a", Surface: trace.Operate, Trace: w.Traces.New(trace.Operate), Subject: "x"}
				err := w.Lanes.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error { return w.Runs.Start(tx, e) })
				if err != nil || as == execution.Running {
					return err
				}
				return w.Lanes.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error { return w.Runs.Leave(tx, e, as, nil, string(as)) })
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		fails := func(want int) {
			t.Helper()
			var got seen
			w.must(t, 200, http.MethodGet, "/api/v1/overview", "", &got)
			if n := len(listed(t, w, "/api/v1/failures", func(f struct{ ID string }) string { return f.ID })); got.Failures.Count != want || n != want {
				t.Errorf("%d failures, %d listed, want %d", got.Failures.Count, n, want)
			}
		}
		run(execution.Failed)
		run(execution.Failed)
		run(execution.Failed)
		fails(1)
		run(execution.Completed)
		fails(0)
		run(execution.Failed)
		run(execution.Running)
		fails(1)
	})
}

// TestBulk: a bulk change needs the number of rows that its filter matches, changes each by its own
// rules, and leaves one row in the audit log.
func TestBulk(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for i := range 3 {
			w.must(t, 201, http.MethodPost, agentTasks, fmt.Sprintf(`{"title":"bulk %d","taskType":"bulk"}`, i), nil)
		}
		var running taskTold
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"bulk too","taskType":"bulk"}`, &running)
		w.must(t, 200, http.MethodPost, agentTasks+"/"+running.ID+"/cancel", `{}`, nil)
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"another"}`, nil)
		var p struct{ Count int }
		got := w.must(t, 409, http.MethodPost, agentTasks+"/bulk", `{"filter":{"taskType":"bulk"},"action":"cancel","reason":"r","expectedCount":3}`, &p)
		if p.Count != 4 {
			t.Errorf("%s", got.body)
		}
		var done struct{ Matched, Changed, Refused int }
		w.must(t, 202, http.MethodPost, agentTasks+"/bulk", `{"filter":{"taskType":"bulk"},"action":"cancel","reason":"r","expectedCount":4}`, &done)
		if done.Matched != 4 || done.Changed != 3 || done.Refused != 1 {
			t.Errorf("%+v", done)
		}
		type entry struct{ SkillName string }
		audit := listed(t, w, "/api/v1/activity?skill=task.bulk_cancel", func(e entry) string { return e.SkillName })
		if len(audit) != 1 {
			t.Errorf("the audit log has %v", audit)
		}
		first, second := w.waits(t, "ada"), w.waits(t, "bob")
		w.must(t, 202, http.MethodPost, "/api/v1/approvals/bulk", `{"filter":{"skill":"greet"},"action":"reject","reason":"r","expectedCount":2}`, &done)
		for _, id := range []string{first, second} {
			var a approvalBody
			if w.must(t, 200, http.MethodGet, approvalsPath(id, ""), "", &a); a.Status != "rejected" || a.Reason != "r" {
				t.Errorf("%+v", a)
			}
		}
		for i := range 2 {
			w.must(t, 201, http.MethodPost, "/api/v1/memories", fmt.Sprintf(`{"category":"fact","content":"number %d"}`, i), nil)
		}
		w.must(t, 202, http.MethodPost, "/api/v1/memories/bulk", `{"filter":{"category":"fact"},"action":"forget","expectedCount":2}`, &done)
		if done.Changed != 2 {
			t.Errorf("%+v", done)
		}
	})
}

// stating counts the statements of fn.
func stating(d *db.DB, fn func()) int64 {
	before := d.Stats()
	fn()
	return d.Stats().Sub(before).Statements
}

// TestAListOfThreadsCostsTwoStatements: the last message and the holder come with the list.
func TestAListOfThreadsCostsTwoStatements(t *testing.T) {
	conversing(t, func(t *testing.T, w *world, _ *spoken, _ func()) {
		var open threadTold
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ann"}`, &open)
		w.must(t, 201, http.MethodPost, "/api/v1/threads/"+open.ID+"/messages", `{"body":"Hello"}`, nil)
		w.must(t, 201, http.MethodPost, "/api/v1/threads/"+open.ID+"/messages", `{"body":"Are you there?"}`, nil)
		var run begun
		w.must(t, 201, http.MethodPost, "/api/v1/executions", `{"agent":"ada"}`, &run)
		w.must(t, 200, http.MethodPost, "/api/v1/threads/"+open.ID+"/lock", `{"executionId":"`+run.ID+`"}`, nil)
		var list struct {
			Items []struct {
				ID          string
				LastMessage *struct{ Role, Text string }
				Holder      *struct{ ExecutionID, Agent string }
				ExpiresAt   *string
			}
		}
		n := stating(w.Env.DB, func() { w.must(t, 200, http.MethodGet, "/api/v1/threads", "", &list) })
		is := list.Items[0]
		if is.LastMessage == nil || is.LastMessage.Text != "Are you there?" || is.LastMessage.Role != "user" || is.Holder == nil || is.Holder.ExecutionID != run.ID ||
			is.Holder.Agent != "ada" || is.ExpiresAt == nil || n != 2 {
			t.Errorf("%+v, %d statements", is, n)
		}
	})
}
