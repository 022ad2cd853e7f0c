package api_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/overview"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestOneModelThatIsDownIsNoOutage: no model answers only while circuits are open and nothing has been
// answered since.
func TestOneModelThatIsDownIsNoOutage(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		calls := func(want string) {
			t.Helper()
			var got seen
			w.must(t, 200, "GET", "/api/v1/overview", "", &got)
			if l := got.Verdict.Lines[0]; l.Tone != want {
				t.Errorf("calls: %+v, want %s", l, want)
			}
		}
		down := func() {
			if _, err := w.Circuits.Failed(t.Context(), w.Workspace, resilient.Key{Provider: "openai:0", Model: "big"}, llm.ClassBilling, 0); err != nil {
				t.Fatal(err)
			}
		}
		down()
		calls("failed")
		w.Env.Skew.Advance(time.Second)
		w.uses(t, "ada", 10)
		calls("done")
		w.Env.Skew.Advance(10 * 24 * time.Hour) // its time is over: the next call tries it
		calls("done")
	})
}

// TestTheEndOfARunIsNoCall: a skill that was run by hand and failed is one failed call, though its run has
// a line of its own.
func TestTheEndOfARunIsNoCall(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		write := func(name, skill string, status activity.Status) {
			t.Helper()
			e := activity.Entry{Agent: "a", Surface: trace.Operate, Skill: name, SkillID: skill, Status: status, Trace: w.Traces.New(trace.Operate)}
			if err := w.Activity.Write(t.Context(), w.Workspace, e); err != nil {
				t.Fatal(err)
			}
		}
		write("look", ids(), activity.Error)
		write("reason", "", activity.Error)
		write("(model)", "", activity.Success)
		write("operate", "", activity.Success)
		write("chat", "", activity.Success)
		write("webhook", "", activity.Error)
		var got seen
		w.must(t, 200, "GET", "/api/v1/overview", "", &got)
		if l := got.Verdict.Lines[0]; l.Detail != "1 of 2 in 1 h" {
			t.Errorf("calls: %+v, want 1 of 2", l)
		}
	})
}

// TestAnApprovalThatExpiredNeedsNobody: nobody can decide on it any more, also before a beat has recorded that.
func TestAnApprovalThatExpiredNeedsNobody(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.waits(t, "ada")
		if got := w.needed(t, "approval"); len(got) != 1 {
			t.Errorf("it needs %+v, want one approval", got)
		}
		w.Env.Skew.Advance(73 * time.Hour)
		var got seen
		w.must(t, 200, "GET", "/api/v1/overview", "", &got)
		if l := got.Verdict.Lines[0]; l.Text != "Calls succeed" || len(w.needed(t, "approval")) != 0 {
			t.Errorf("calls: %+v; it needs %+v", l, w.needed(t, "approval"))
		}
	})
}

// TestTheGlobalBudgetIsAmongMany: the cap of the day is told whatever other budgets there are. Without one the
// cap is of beats, and what they used is compared with it.
func TestTheGlobalBudgetIsAmongMany(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		day := time.Now().UTC().Truncate(24 * time.Hour)
		w.uses(t, "ada", 10)
		w.usesIn(t, w.Traces.New(trace.Operate), "ada", 7)
		var got struct {
			Today struct{ Tokens, CapTokens, CappedTokens int64 }
		}
		if w.must(t, 200, "GET", "/api/v1/overview", "", &got); got.Today.Tokens != 17 || got.Today.CappedTokens != 10 {
			t.Errorf("today %+v, want 10 of 17 tokens capped", got.Today)
		}
		w.Env.Skew.Advance(2 * time.Second) // an overview is kept for a second
		w.must(t, 201, "POST", budgetsPath, fmt.Sprintf(`{"scope":"global","allocated":777,"periodStart":%q,"periodEnd":%q}`,
			day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)), nil)
		for i := range 21 {
			w.budget(t, "agent", fmt.Sprintf("agent-%d", i), 1000)
		}
		if w.must(t, 200, "GET", "/api/v1/overview", "", &got); got.Today.CapTokens != 777 || got.Today.CappedTokens != got.Today.Tokens {
			t.Errorf("today %+v, want a cap of 777 for all tokens", got.Today)
		}
	})
}

// TestABudgetThatEndsEarlyIsNamed in both places where the overview tells of it.
func TestABudgetThatEndsEarlyIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := ids()
		w.must(t, 201, http.MethodPut, agentsPath+"/"+id, `{"name":"scout"}`, nil)
		b := w.budget(t, "agent", id, 1000)
		w.uses(t, id, 999)
		var got seen
		w.must(t, 200, http.MethodGet, "/api/v1/overview", "", &got)
		const want = "Budget of scout ends early"
		if l := got.Verdict.Lines[4]; l.Text != want {
			t.Errorf("the line is %+v, want %q", l, want)
		}
		if len(got.Needs) != 1 || got.Needs[0].ID != b.ID || got.Needs[0].Title != want {
			t.Errorf("it needs %+v, want %q", got.Needs, want)
		}
	})
}

// TestManyPagesShareOneOverview: who asks soon after another costs the database nothing, and who has
// changed something sees it.
func TestManyPagesShareOneOverview(t *testing.T) {
	var frozen time.Duration // by which the time has gone on while the process could notice nothing
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite), func(d *api.Deps) {
		d.KeepOverview, d.Clock = time.Hour, func() time.Time { return time.Now().Round(0).Add(frozen) }
	})
	waiting := func() int {
		t.Helper()
		var got seen
		w.must(t, 200, "GET", "/api/v1/overview", "", &got)
		return got.Tasks.Waiting
	}
	cost := func() int64 {
		t.Helper()
		before := w.DB.Stats().Statements
		waiting()
		return w.DB.Stats().Statements - before
	}
	first := cost()
	var pages sync.WaitGroup
	before := w.DB.Stats().Statements
	for range 20 {
		pages.Go(func() { waiting() })
	}
	pages.Wait()
	if more := w.DB.Stats().Statements - before; first < 10 || more >= first {
		t.Errorf("the first overview cost %d statements, 20 more %d", first, more)
	}
	w.must(t, 201, "POST", "/api/v1/agent-tasks", `{"title":"Count the stock"}`, nil)
	if n := waiting(); n != 1 {
		t.Errorf("%d tasks wait after one was created", n)
	}
	frozen = 2 * time.Hour
	if again := cost(); again < 10 {
		t.Errorf("after a freeze of two hours, the overview cost %d statements", again)
	}
}

// TestWhoFollowsFromMeMissesNothing: the position that tells who one is comes before all that follows.
func TestWhoFollowsFromMeMissesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var me struct{ Cursor string }
		w.must(t, 200, "GET", "/api/v1/me", "", &me)
		w.must(t, 201, "POST", "/api/v1/agent-tasks", `{"title":"Count the stock"}`, nil)
		var found struct{ Items []struct{ Kind string } }
		if me.Cursor == "" {
			t.Fatal("there is no position")
		}
		for end := time.Now().Add(time.Minute); len(found.Items) == 0; { // another transaction may hold it back for a moment
			if time.Now().After(end) {
				t.Fatal("the task's event did not come")
			}
			r := request("GET", "/api/v1/events?cursor="+me.Cursor, owner, "")
			r.Header.Set("Accept", "application/json")
			got := httptest.NewRecorder()
			w.ServeHTTP(got, r)
			if err := json.Unmarshal(got.Body.Bytes(), &found); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// seen is what the tests read of the overview.
type seen struct {
	State, Sentence string
	Object          *struct{ Kind, ID, Title string }
	Verdict         struct {
		Tone, Text string
		Lines      []struct{ Key, Tone, Text, Detail string }
	}
	Stop *struct{ Scope, Reason, By string }
	Beat struct {
		Running         bool
		Phase           *string
		NextAt, LastAt  *time.Time
		IntervalSeconds int
	}
	Today     struct{ Tokens, MicroUSD int64 }
	Failures  struct{ Count int }
	Approvals struct {
		Count int
		Items []struct{ ID, Title string }
	}
	Needs   []struct{ Kind, ID, Tone, Title, Why string }
	Running []struct {
		Title, Surface, Agent string
		Tokens                int64
	}
	Lanes []struct{ Lane, Label, Holder string }
	Tasks struct {
		Waiting, Working, Failed int
		ByReason                 []struct {
			Code  string
			Count int
		}
	}
	At time.Time
}

// TestTheOverviewOfAFreshWorkspace is idle and works, on each engine.
func TestTheOverviewOfAFreshWorkspace(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, func(d *api.Deps) { d.BeatEvery = 30 * time.Minute })
		var o seen
		w.must(t, 200, "GET", "/api/v1/overview", "", &o)
		if o.State != "idle" || o.Verdict.Text != "It works" || o.Verdict.Tone != "done" || len(o.Verdict.Lines) != 6 {
			t.Errorf("%+v", o)
		}
		if o.Beat.NextAt == nil || o.Beat.NextAt.Before(o.At) || o.Beat.NextAt.Sub(o.At) > 30*time.Minute || o.Beat.IntervalSeconds != 1800 {
			t.Errorf("next beat %+v at %v", o.Beat, o.At)
		}
		w.must(t, 201, "POST", "/api/v1/agent-tasks", `{"title":"Count the stock"}`, nil)
		w.must(t, 200, "POST", "/api/v1/lanes/deploy/acquire", `{"holder":"builder"}`, nil)
		var run struct{ TraceID trace.ID }
		w.must(t, 201, "POST", "/api/v1/executions", `{"agent":"scout","input":{"title":"Read the news"}}`, &run)
		w.uses(t, "scout", 40)
		w.usesIn(t, run.TraceID, "scout", 300)
		w.usesIn(t, run.TraceID, "scout", 21)
		w.waits(t, "ada")
		w.must(t, 200, "GET", "/api/v1/overview", "", &o)
		if len(o.Running) != 1 || o.Running[0].Tokens != 321 {
			t.Errorf("running %+v", o.Running)
		}
		if len(o.Needs) != 2 || o.Needs[1].Kind != "task" {
			t.Errorf("it needs %+v", o.Needs)
		}
		if o.Needs[0].Title != "Greet: name ada" || !strings.HasSuffix(o.Needs[0].Why, "asks to call greet") || o.Approvals.Items[0].Title != "Greet: name ada" {
			t.Errorf("it needs %+v; approvals %+v", o.Needs, o.Approvals)
		}
		if o.State != "working" || o.Sentence != "scout works on Read the news" || o.Object == nil || o.Object.Title != "Read the news" {
			t.Errorf("%+v", o)
		}
		if len(o.Lanes) != 1 || o.Lanes[0].Label != "deploy" || o.Tasks.Waiting != 1 || o.Tasks.ByReason[0].Code != "no_agent" {
			t.Errorf("%+v", o)
		}
		w.must(t, 201, "POST", "/api/v1/kill-switches", `{"scope":"workspace","reason":"stock-taking"}`, nil)
		w.must(t, 200, "GET", "/api/v1/overview", "", &o)
		if o.State != "stopped" || o.Stop == nil || o.Stop.Reason != "stock-taking" || o.Verdict.Tone != "failed" || o.Needs[0].Kind != "stop" {
			t.Errorf("%+v", o)
		}
		w.Skew.Advance(11 * time.Minute) // since anything was heard of the run
		w.must(t, 200, "GET", "/api/v1/overview", "", &o)
		if len(o.Running) != 0 {
			t.Errorf("a silent run is said to go on: %+v", o.Running)
		}
	})
}

// TestTheRoutesOfTheEngineRoomAnswer on each engine.
func TestTheRoutesOfTheEngineRoomAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var b struct{ ID string }
		w.must(t, 201, "POST", "/api/v1/budgets", `{"scope":"global","allocated":1000,"periodStart":"2020-01-01T00:00:00Z","periodEnd":"2090-01-01T00:00:00Z"}`, &b)
		var audit struct {
			Items []struct{ By, Action, Subject, Summary string }
		}
		w.must(t, 200, "GET", "/api/v1/audit", "", &audit)
		if len(audit.Items) != 1 || audit.Items[0].Action != "budget.create" || audit.Items[0].Subject != b.ID || audit.Items[0].By != "local:owner" {
			t.Errorf("audit %+v", audit)
		}
		var series struct {
			Items []struct {
				Day       string
				Remaining int64
			}
			Projection struct{ Recommendation string }
		}
		w.must(t, 200, "GET", "/api/v1/budgets/"+b.ID+"/series?days=3", "", &series)
		if len(series.Items) != 3 || series.Items[2].Remaining != 1000 || series.Projection.Recommendation != "CONTINUE" {
			t.Errorf("series %+v", series)
		}
		var histogram struct {
			BucketSeconds int
			Items         []struct{ Success int }
		}
		w.must(t, 200, "GET", "/api/v1/activity/histogram", "", &histogram)
		if histogram.BucketSeconds != 30 || len(histogram.Items) != 1 || histogram.Items[0].Success != 1 {
			t.Errorf("histogram %+v", histogram)
		}
		var health struct {
			Items []struct {
				Skill  string
				Series []struct{ Day string }
			}
		}
		w.must(t, 200, "GET", "/api/v1/skills/health?days=14", "", &health)
		if len(health.Items) == 0 || len(health.Items[0].Series) != 14 {
			t.Errorf("health %+v", health)
		}
		w.must(t, 200, "GET", "/api/v1/lanes/history", "", nil)
		w.must(t, 200, "GET", "/api/v1/usage?by=day,skill", "", nil)
		w.must(t, 200, "GET", "/api/v1/usage?by=operation", "", nil)
		var me struct {
			Workspaces  []struct{ ID string }
			Permissions []string
		}
		w.must(t, 200, "GET", "/api/v1/me", "", &me)
		if len(me.Workspaces) != 1 || len(me.Permissions) < 100 {
			t.Errorf("me %+v", me)
		}
	})
}

// TestAHistogramReachesAsFarAsTimesDo: its buckets begin when they should.
func TestAHistogramReachesAsFarAsTimesDo(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.must(t, 201, "POST", "/api/v1/budgets",
			`{"scope":"global","allocated":1000,"periodStart":"2020-01-01T00:00:00Z","periodEnd":"2090-01-01T00:00:00Z"}`, nil)
		for _, span := range []string{"since=0002-01-01T00:00:00Z", "since=1601-01-01T00:00:00Z",
			"since=0002-01-01T00:00:00Z&until=9999-12-31T00:00:00Z"} {
			var histogram struct {
				BucketSeconds int64
				Items         []struct{ At time.Time }
			}
			w.must(t, 200, "GET", "/api/v1/activity/histogram?"+span, "", &histogram)
			now := time.Now().Unix()
			if len(histogram.Items) != 1 || histogram.Items[0].At.Unix() > now || histogram.Items[0].At.Unix()+histogram.BucketSeconds < now {
				t.Errorf("%s: %+v", span, histogram)
			}
		}
		w.must(t, 200, "GET", "/api/v1/activity/histogram?since=1900-01-01T00:00:00Z&until=1901-01-01T00:00:00Z", "", nil)
	})
}

// TestTheOverviewSaysThatMoreMayWait than it counts.
func TestTheOverviewSaysThatMoreMayWait(t *testing.T) {
	for n, want := range map[int]bool{9_999: false, 10_000: true} {
		if waiting, more := api.Waiting(&overview.Facts{Tasks: []overview.Count{{Code: "no_agent", N: n}, {Code: "running", N: 5}}}); waiting != n || more != want {
			t.Errorf("of %d tasks: %d wait, more: %t", n, waiting, more)
		}
	}
}

// TestTheEngineRoomsRequestsCostTheSameWithMoreRows counts their statements, and the round trips of the
// overview, with few rows and with many.
func TestTheEngineRoomsRequestsCostTheSameWithMoreRows(t *testing.T) {
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.New(t, engine))
			var b struct{ ID string }
			w.must(t, 201, "POST", "/api/v1/budgets", `{"scope":"global","allocated":1000,"periodStart":"2020-01-01T00:00:00Z","periodEnd":"2090-01-01T00:00:00Z"}`, &b)
			most := map[string]int64{ // the limit of requests and what a request brings along cost, too
				"/api/v1/overview": 24, "/api/v1/skills/health": 6, "/api/v1/lanes": 4, "/api/v1/lanes/history": 3, "/api/v1/activity/histogram": 3,
				"/api/v1/audit": 3, "/api/v1/traces": 3, "/api/v1/usage?by=day,skill": 3, "/api/v1/budgets/" + b.ID + "/series": 5, "/api/v1/me": 5,
			}
			cost := func(path string) int64 {
				before := w.DB.Stats().Statements
				w.must(t, 200, "GET", path, "", nil)
				return w.DB.Stats().Statements - before
			}
			few := map[string]int64{}
			for path, limit := range most {
				if few[path] = cost(path); few[path] > limit {
					t.Errorf("%s: %d statements, want at most %d", path, few[path], limit)
				}
			}
			for i := range 12 {
				w.must(t, 201, "POST", "/api/v1/agent-tasks", `{"title":"Count the stock"}`, nil)
				w.must(t, 200, "POST", fmt.Sprintf("/api/v1/lanes/deploy%d/acquire", i), `{"holder":"builder"}`, nil)
				w.must(t, 201, "POST", "/api/v1/executions", `{"agent":"scout","input":{"title":"Read the news"}}`, nil)
			}
			for path := range most {
				if got := cost(path); got != few[path] {
					t.Errorf("%s: %d statements with few rows, %d with more", path, few[path], got)
				}
			}
		})
	}
}

// TestAListingIsATableToo has the same rows as CSV, and no cell that a spreadsheet computes.
func TestAListingIsATableToo(t *testing.T) {
	w := onOne(t)
	for _, title := range []string{"Count the stock", `=HYPERLINK("http://evil.example")`, "a, \"b\"\nc"} {
		raw, _ := json.Marshal(map[string]any{"title": title, "tags": []string{"x"}})
		w.must(t, 201, "POST", "/api/v1/agent-tasks", string(raw), nil)
	}
	table := func(path, accept string) (*httptest.ResponseRecorder, [][]string) {
		t.Helper()
		r := request("GET", path, owner, "")
		r.Header.Set("Accept", accept)
		got := httptest.NewRecorder()
		w.ServeHTTP(got, r)
		rows, err := csv.NewReader(got.Body).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return got, rows
	}
	got, rows := table("/api/v1/agent-tasks?limit=2", "text/csv")
	if got.Code != 200 || got.Header().Get("Content-Type") != "text/csv; charset=utf-8; header=present" || len(rows) != 3 {
		t.Fatalf("%d %v %q", got.Code, got.Header(), rows)
	}
	title, tags := slices.Index(rows[0], "title"), slices.Index(rows[0], "tags")
	if rows[1][title] != "a, \"b\"\nc" || rows[2][title] != `'=HYPERLINK("http://evil.example")` || rows[1][tags] != `["x"]` {
		t.Errorf("%q", rows)
	}
	next := got.Header().Get("X-Next-Cursor")
	if _, rows = table("/api/v1/agent-tasks?limit=2&cursor="+next, "application/json;q=0.5, text/csv"); next == "" || len(rows) != 2 || rows[1][title] != "Count the stock" {
		t.Errorf("the next page: %q", rows)
	}
	for path, accept := range map[string]string{
		"/api/v1/agent-tasks": "application/json, text/csv;q=0.5", "/api/v1/overview": "text/csv", "/api/v1/audit": "*/*",
	} {
		r := request("GET", path, owner, "")
		r.Header.Set("Accept", accept)
		if got := w.send(t, r); got.status != 200 || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s as %s: %d %v", path, accept, got.status, got.header)
		}
	}
	r := request("GET", "/api/v1/agent-tasks?limit=0", owner, "")
	r.Header.Set("Accept", "text/csv")
	if got := w.send(t, r); got.status != 422 || got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a refusal: %d %v", got.status, got.header)
	}
}

// TestAForcedReleaseIsGuardedByItsFence, so that an old click does not take the lane from its next holder.
func TestAForcedReleaseIsGuardedByItsFence(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var first, second struct {
			Fence int64
			Token string
		}
		w.must(t, 200, "POST", "/api/v1/lanes/deploy/acquire", `{"holder":"one"}`, &first)
		w.must(t, 200, "POST", "/api/v1/lanes/deploy/release", `{"token":"`+first.Token+`"}`, nil)
		w.must(t, 200, "POST", "/api/v1/lanes/deploy/acquire", `{"holder":"two"}`, &second)
		w.refused(t, 409, "fence_changed", "POST", "/api/v1/lanes/deploy/force-release", fmt.Sprintf(`{"reason":"stuck","fence":%d}`, first.Fence))
		var did struct{ Released bool }
		w.must(t, 200, "POST", "/api/v1/lanes/deploy/force-release", fmt.Sprintf(`{"reason":"stuck","fence":%d}`, second.Fence), &did)
		if !did.Released {
			t.Error("the hold with the fence goes on")
		}
		w.refused(t, 409, "fence_changed", "POST", "/api/v1/lanes/deploy/force-release", fmt.Sprintf(`{"reason":"stuck","fence":%d}`, second.Fence))
	})
}

// TestATraceTellsWhatWasHeldAndWhatItCost in the listing and in its story.
func TestATraceTellsWhatWasHeldAndWhatItCost(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var e struct{ ID, TraceID string }
		w.must(t, 201, "POST", "/api/v1/executions", `{"agent":"scout","input":{"title":"Read the news"}}`, &e)
		w.must(t, 200, "POST", "/api/v1/executions/"+e.ID+"/fail", `{"reason":"no paper"}`, nil)
		var list struct {
			Items []struct {
				TraceID, Title string
				Error          *string
				Tokens         int64
			}
		}
		w.must(t, 200, "GET", "/api/v1/traces", "", &list)
		if len(list.Items) != 1 || list.Items[0].Title != "Read the news" || list.Items[0].Error == nil || *list.Items[0].Error != "no paper" {
			t.Errorf("%+v", list)
		}
		var o seen
		w.must(t, 200, "GET", "/api/v1/overview", "", &o)
		if o.Failures.Count != 1 || o.State != "idle" || len(o.Needs) != 1 || o.Needs[0].Kind != "failure" {
			t.Errorf("%+v", o)
		}
		var told struct {
			Activities []struct {
				Kind                 string
				StartedAt, CreatedAt time.Time
			}
		}
		w.must(t, 200, "GET", "/api/v1/traces/"+list.Items[0].TraceID, "", &told)
		for _, a := range told.Activities {
			if a.StartedAt.IsZero() || a.StartedAt.After(a.CreatedAt) || a.Kind == "" {
				t.Errorf("%+v", a)
			}
		}
	})
}
