package api_test

import (
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

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
	Needs   []struct{ Kind, ID, Tone string }
	Running []struct{ Title, Surface, Agent string }
	Lanes   []struct{ Lane, Label, Holder string }
	Tasks   struct {
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
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
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
		w.must(t, 201, "POST", "/api/v1/executions", `{"agent":"scout","input":{"title":"Read the news"}}`, nil)
		w.must(t, 200, "GET", "/api/v1/overview", "", &o)
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
