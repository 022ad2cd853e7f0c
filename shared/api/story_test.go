package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/quiet"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

type usage struct{ PromptTokens, CompletionTokens, TotalTokens int64 }

type item struct {
	ID, Agent, Surface, SkillName, Status, TraceID, ConversationID, ExecutionID string
	ErrorMessage, ThreadID, ParentExecutionID, SkillID, Model                   string
	Input, Output                                                               map[string]any
	TokenUsage                                                                  *usage
	CostUSD                                                                     *float64
	DurationMS                                                                  int64
	Attempt                                                                     int
	CreatedAt                                                                   time.Time
}

type story struct {
	TraceID, Surface, Status string
	StartedAt                time.Time
	EndedAt                  *time.Time
	DurationMS               int64
	Executions               []struct {
		ID, ParentExecutionID, Subject, Status, Surface string
		TokenUsage                                      usage
		CreatedAt                                       time.Time
		EndedAt                                         *time.Time
	}
	Activities []item
	Holds      []struct {
		Lane, Holder string
		EndedAt      *time.Time
	}
	Usage   usage
	CostUSD float64
}

// realBeat wires a heartbeat with the demo model.
func realBeat(t testing.TB, d *api.Deps) (*heartbeat.Heartbeat, *objective.Store) {
	t.Helper()
	skills, err1 := objective.Skills(d.Objectives)
	query, err2 := skill.QueryActivity(d.Activity, time.Now)
	asks, err3 := quiet.New()
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	set, err := skill.NewSet(append(skills, query)...)
	if err != nil {
		t.Fatal(err)
	}
	p := *d.Parts
	p.Quiet = asks
	p.Skills = func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) { return set, nil }
	p.Reason = &reason.Runner{Model: demo.New(), Runs: p.Runs, Lanes: p.Lanes, Activity: p.Activity, Log: p.Log, Clock: time.Now}
	p.Worker = &work.Worker{Lanes: p.Lanes, Runs: p.Runs, Reason: p.Reason, Outbox: p.Outbox}
	p.Sender = &outbox.Sender{Store: p.Outbox, Log: p.Log}
	return &heartbeat.Heartbeat{Parts: &p}, p.Objectives
}

// The trace of a heartbeat by hand holds everything that it did.
func TestTheStoryOfABeat(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var objectives *objective.Store
		w = newWorld(t, w.Env, func(d *api.Deps) {
			var h *heartbeat.Heartbeat
			h, objectives = realBeat(t, d)
			d.Beat = h.Run
		})
		var b db.Batch
		objectives.Create(&b, objective.Objective{Title: "Write a welcome text", Priority: 5, DoneCriterion: "it is there", CreatedBy: "test"})
		if err := w.Env.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		var done beaten
		w.must(t, 200, http.MethodPost, beat, `{"wait":true}`, &done)

		before := w.Env.DB.Stats()
		var s story
		got := w.must(t, 200, http.MethodGet, "/api/v1/traces/"+done.TraceID, "", &s)
		if sent := w.Env.DB.Stats().Sub(before); sent.RoundTrips != 2 || sent.Statements != 4 {
			t.Errorf("it took %+v", sent)
		}
		if s.TraceID != done.TraceID || s.Surface != "heartbeat" || s.Status != "completed" || s.EndedAt == nil || len(s.Holds) == 0 || s.Holds[0].EndedAt == nil {
			t.Errorf("%s", got.body)
		}
		if len(s.Executions) < 2 || s.Executions[0].ID != done.ExecutionID || s.Executions[0].Subject != "heartbeat" {
			t.Fatalf("executions: %+v", s.Executions)
		}
		var total int64
		for _, e := range s.Executions {
			total += e.TokenUsage.TotalTokens
			if e.ID != done.ExecutionID && e.ParentExecutionID != done.ExecutionID {
				t.Errorf("execution %+v hangs under nothing", e)
			}
		}
		if s.Usage.TotalTokens != total || total == 0 || s.Usage.PromptTokens+s.Usage.CompletionTokens != total {
			t.Errorf("usage %+v of %d", s.Usage, total)
		}
		if !slices.IsSortedFunc(s.Activities, func(a, b item) int { return a.CreatedAt.Compare(b.CreatedAt) }) || len(s.Activities) < 3 {
			t.Errorf("activities: %+v", s.Activities)
		}
		last := s.Activities[len(s.Activities)-1]
		if last.SkillName != "heartbeat" || last.Status != "success" || last.ConversationID != done.TraceID || last.ExecutionID != done.ExecutionID {
			t.Errorf("the last activity: %+v", last)
		}
		if first := s.Executions[0]; !s.StartedAt.Equal(first.CreatedAt) {
			t.Errorf("the trace begins at %s, and its first execution at %s", s.StartedAt, first.CreatedAt)
		}
		if s.DurationMS < 0 || !s.EndedAt.Add(-time.Duration(s.DurationMS)*time.Millisecond).Round(time.Second).Equal(s.StartedAt.Round(time.Second)) {
			t.Errorf("from %s to %s in %d ms", s.StartedAt, s.EndedAt, s.DurationMS)
		}
	})
}

func TestTracesThatAreNoBeats(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.refused(t, 404, "not_found", http.MethodGet, "/api/v1/traces/hb_0mh8c1v2q_a7x2p1k9d4", "")
		for _, bad := range []string{"x", "hb_0mh8c1v2q_a7x2p1k9d", "zz_0mh8c1v2q_a7x2p1k9d4", "HB_0mh8c1v2q_a7x2p1k9d4", "hb_0mh8c1v2q_a7x2p1k9d4%0A"} {
			if p := w.refused(t, 422, "invalid", http.MethodGet, "/api/v1/traces/"+bad, ""); !p.at("path.traceId") {
				t.Errorf("%s: %+v", bad, p)
			}
		}
		// A trace whose only record is a hold on a lane.
		id := w.Traces.New(trace.Webhook)
		ctx := trace.With(t.Context(), id)
		h, err := w.Lanes.Acquire(ctx, lane.Request{Workspace: w.Workspace, Lane: "x", Holder: "someone", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var s story
		w.must(t, 200, http.MethodGet, "/api/v1/traces/"+string(id), "", &s)
		if s.Status != "running" || s.Surface != "webhook" || len(s.Holds) != 1 || s.Holds[0].Holder != "someone" || s.EndedAt != nil {
			t.Errorf("%+v", s)
		}
		// An execution that works, then waits, then ends.
		e := execution.Execution{ID: ids(), Agent: "a", Surface: trace.Webhook, Trace: id, Subject: "x"}
		step := func(fn func(lane.Tx) error) {
			t.Helper()
			if err := w.Lanes.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error { return fn(tx) }); err != nil {
				t.Fatal(err)
			}
			w.must(t, 200, http.MethodGet, "/api/v1/traces/"+string(id), "", &s)
		}
		step(func(tx lane.Tx) error { return w.Runs.Start(tx, e) })
		if s.Status != "running" || s.EndedAt != nil || len(s.Executions) != 1 {
			t.Errorf("%+v", s)
		}
		step(func(tx lane.Tx) error { return w.Runs.Leave(tx, e, execution.Parked, nil, "") })
		if s.Status != "parked" || s.EndedAt != nil {
			t.Errorf("%+v", s)
		}
		step(func(tx lane.Tx) error { return w.Runs.Leave(tx, e, execution.Failed, nil, "it broke") })
		if s.Status != "failed" || s.EndedAt == nil {
			t.Errorf("%+v", s)
		}
		for status, want := range map[activity.Status]string{"success": "completed", "skipped": "skipped", "error": "failed", "pending_approval": "waiting"} {
			id := w.Traces.New(trace.Chat)
			entry := activity.Entry{Agent: "a", Surface: trace.Chat, Status: status, Trace: id, Duration: 3 * time.Second}
			if err := w.Activity.Write(t.Context(), w.Workspace, entry); err != nil {
				t.Fatal(err)
			}
			w.must(t, 200, http.MethodGet, "/api/v1/traces/"+string(id), "", &s)
			if s.Status != want || s.DurationMS != 3000 {
				t.Errorf("%s: %+v", status, s)
			}
		}
	})
}

// A workspace cannot see the traces, lanes and activities of another one.
func TestWorkspacesDoNotMeet(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.Traces.New(trace.Operate)
		r := request(http.MethodPost, lanes("secret", "acquire"), owner, `{"holder":"ours"}`)
		r.Header.Set("X-Trace-Id", string(id))
		var h held
		decode(t, w.send(t, r).body, &h)
		w.must(t, 200, http.MethodPost, lanes("other", "force-release"), `{"reason":"ours"}`, nil)

		stranger := w.Env
		stranger.Workspace = dbtest.NewWorkspace(t, w.Env.DB)
		s := newWorld(t, stranger)
		s.refused(t, 404, "not_found", http.MethodGet, "/api/v1/traces/"+string(id), "")
		for _, path := range []string{"/api/v1/lanes", "/api/v1/activity"} {
			if got := s.must(t, 200, http.MethodGet, path, "", nil); !strings.HasPrefix(string(got.body), `{"items":[],"nextCursor":null`) {
				t.Errorf("%s: %s", path, got.body)
			}
		}
		var free struct{ Held bool }
		if s.must(t, 200, http.MethodGet, lanes("secret", "why"), "", &free); free.Held {
			t.Error("another workspace's hold is seen")
		}
		s.refused(t, 409, "lost", http.MethodPost, lanes("secret", "renew"), proof(h.Token))
		s.refused(t, 409, "lost", http.MethodPost, lanes("secret", "release"), proof(h.Token))
		var did struct{ Released bool }
		if s.must(t, 200, http.MethodPost, lanes("secret", "force-release"), `{"reason":"theirs"}`, &did); did.Released {
			t.Error("another workspace's hold was ended")
		}
		w.must(t, 200, http.MethodPost, lanes("secret", "release"), proof(h.Token), nil)
	})
}

func TestActivityFilters(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		cost := 0.25
		first := activity.Entry{
			Agent: "visitor_chat", Surface: trace.Chat, Skill: "search", SkillID: ids(), Status: activity.Error, Error: "Not Found: 100 %",
			Input: []byte(`{"query":"Lanes"}`), Output: []byte(`{"hits":0}`), Usage: &activity.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7},
			Model: "demo", CostUSD: &cost, Duration: 1500 * time.Millisecond, Trace: w.Traces.New(trace.Chat), Execution: ids(),
			ParentExecution: ids(), Attempt: 2, Thread: ids(),
		}
		second := activity.Entry{Agent: "flowpilot", Surface: trace.Heartbeat, Skill: "heartbeat", Status: activity.Skipped, Trace: w.Traces.New(trace.Heartbeat)}
		for _, e := range []activity.Entry{first, second} {
			if err := w.Activity.Write(t.Context(), w.Workspace, e); err != nil {
				t.Fatal(err)
			}
			w.Skew.Advance(time.Hour)
		}
		list := func(query string) (items []item) {
			t.Helper()
			var page struct{ Items []item }
			w.must(t, 200, http.MethodGet, "/api/v1/activity?"+query, "", &page)
			return page.Items
		}
		all := list("")
		if len(all) != 2 || all[0].SkillName != "heartbeat" {
			t.Fatalf("newest first: %+v", all)
		}
		got := all[1]
		if got.Agent != first.Agent || got.Surface != "chat" || got.Status != "error" || got.ErrorMessage != first.Error || got.SkillID != first.SkillID ||
			got.Input["query"] != "Lanes" || got.Output["hits"] != 0.0 || *got.TokenUsage != (usage{3, 4, 7}) || got.Model != "demo" || *got.CostUSD != cost ||
			got.DurationMS != 1500 || got.TraceID != string(first.Trace) || got.ConversationID != got.TraceID || got.ExecutionID != first.Execution ||
			got.ParentExecutionID != first.ParentExecution || got.Attempt != 2 || got.ThreadID != first.Thread || got.CreatedAt.IsZero() {
			t.Errorf("%+v", got)
		}
		between := url.QueryEscape(all[0].CreatedAt.Format(time.RFC3339Nano))
		for query, want := range map[string]string{
			"traceId=" + string(first.Trace): "search",
			"skill=search":                   "search",
			"status=skipped":                 "heartbeat",
			"surface=heartbeat":              "heartbeat",
			"surface=hb":                     "heartbeat",
			"surface=ch":                     "search",
			"surface=worker":                 "",
			"agent=visitor_chat":             "search",
			"since=" + between:               "heartbeat",
			"until=" + between:               "search",
			"since=0000-01-01T00:00:00Z&until=9999-12-31T23:59:59Z&limit=1": "heartbeat",
			"q=not+found":                       "search",
			"q=100+%25":                         "search",
			"q=100_%25":                         "",
			"q=lanes":                           "search",
			"status=error&surface=heartbeat":    "",
			"skill=search&agent=visitor_chat&q": "search",
		} {
			names := []string{}
			for _, i := range list(query) {
				names = append(names, i.SkillName)
			}
			if strings.Join(names, " ") != want {
				t.Errorf("%s lists %v, want %q", query, names, want)
			}
		}
		for query, at := range map[string]string{
			"limit=0": "query.limit", "limit=201": "query.limit", "limit=x": "query.limit", "limit=1e1": "query.limit", "limit": "",
			"status=bad": "query.status", "surface=x": "query.surface", "since=today": "query.since", "until=2026-01-01": "query.until",
			"cursor=x": "query.cursor", "cursor=bm9uZQ": "query.cursor", "traceId=x": "query.traceId", "unknown=1": "query.unknown",
			"limit=1&limit=2": "query.limit", "q=%00": "query.q", "q=%ff": "query.q", "q=" + strings.Repeat("x", 201): "query.q",
		} {
			if at == "" {
				list(query) // it counts as missing
				continue
			}
			if p := w.refused(t, 422, "invalid", http.MethodGet, "/api/v1/activity?"+query, ""); !p.at(at) {
				t.Errorf("%s: %+v", query, p)
			}
		}
		w.refused(t, 400, "malformed", http.MethodGet, "/api/v1/activity?q=%zz", "")
	})
}

func TestActivityPages(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for range 7 {
			if err := w.Activity.Write(t.Context(), w.Workspace, activity.Entry{Agent: "a", Surface: trace.Worker, Status: activity.Success, Trace: w.Traces.New(trace.Worker)}); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[string]bool{}
		for path, pages := "/api/v1/activity?limit=3", 0; path != ""; pages++ {
			var page struct {
				Items      []item
				NextCursor *string
			}
			w.must(t, 200, http.MethodGet, path, "", &page)
			for _, i := range page.Items {
				seen[i.ID] = true
			}
			path = ""
			if page.NextCursor != nil {
				path = "/api/v1/activity?limit=3&cursor=" + url.QueryEscape(*page.NextCursor)
			}
			if pages > 3 {
				t.Fatal("no end of pages")
			}
		}
		if len(seen) != 7 {
			t.Errorf("%d of 7 seen", len(seen))
		}
	})
}

func TestSurfaceNames(t *testing.T) {
	for prefix, name := range map[trace.Surface]string{
		trace.Heartbeat: "heartbeat", trace.Operate: "operate", trace.Chat: "chat", trace.Webhook: "webhook",
		trace.Coordinator: "coordinator", trace.Worker: "worker",
	} {
		if api.SurfaceName(prefix) != name || api.SurfaceOf(name) != prefix || api.SurfaceOf(string(prefix)) != prefix {
			t.Errorf("%s is not %s", prefix, name)
		}
	}
}
