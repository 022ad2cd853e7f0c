package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// meter reserves in budgets, like the meter of package wire.
type meter struct{ *budget.Store }

func (m meter) Reserve(ctx context.Context, c reason.Cost) (int, reason.Settle, error) {
	r, err := m.Store.Reserve(ctx, c.Workspace, budget.Request{
		Agent: c.Agent, Surface: c.Surface, Execution: c.Execution, Trace: c.Trace, Model: c.Model,
		Input: int64(c.Input), Output: int64(c.Output), Min: 1, Lease: time.Minute,
	})
	return int(r.Output), func(ctx context.Context, used *llm.Response, skills []string) (int64, error) {
		if used == nil {
			return 0, m.Release(ctx, c.Workspace, r)
		}
		return m.Settle(ctx, c.Workspace, r, budget.Used{Usage: used.Usage, Model: used.Model, Operation: "reason", Skills: skills})
	}, err
}

type usedBy struct {
	Key                      string
	Calls                    int64
	TotalTokens, InputTokens int64
	CostMicroUSD             int64
}

// The usage of a demo heartbeat is the same by skill, in SQL and over HTTP. It adds up to the
// tokens of the log, the trace and the report.
func TestWhatABeatUsedIsToldBySkill(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var objectives *objective.Store
		w = newWorld(t, w.Env, func(d *api.Deps) {
			h, o := realBeat(t, d)
			h.Reason.Meter, objectives, d.Beat = meter{d.Budgets}, o, h.Run
		})
		var b db.Batch
		objectives.Create(&b, objective.Objective{Title: "Write a welcome text", Priority: 5, DoneCriterion: "it is there", CreatedBy: "test"})
		if err := w.Env.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		var done struct {
			TraceID string
			Report  struct{ Tokens int64 }
		}
		w.must(t, 200, http.MethodPost, beat, `{"wait":true}`, &done)

		var s story
		w.must(t, 200, http.MethodGet, "/api/v1/traces/"+done.TraceID, "", &s)
		var logged, calls int64
		for _, a := range s.Activities {
			if a.SkillName != activity.ModelCall {
				if a.TokenUsage != nil {
					t.Errorf("%s counts tokens", a.SkillName)
				}
				continue
			}
			logged, calls = logged+a.TokenUsage.TotalTokens, calls+1
			if a.Model == "" || a.Output["step"] == nil {
				t.Errorf("a model call is %+v", a)
			}
		}
		var bySkill, byDay struct{ Items []usedBy }
		w.must(t, 200, http.MethodGet, "/api/v1/usage?by=skill", "", &bySkill)
		w.must(t, 200, http.MethodGet, "/api/v1/usage?by=day", "", &byDay)
		var told []string
		var shared int64
		for _, u := range bySkill.Items {
			shared += u.TotalTokens
			told = append(told, fmt.Sprintf("%s %d %d", u.Key, u.TotalTokens, u.CostMicroUSD))
		}
		if len(told) < 3 || !slices.ContainsFunc(bySkill.Items, func(u usedBy) bool { return u.Key == "(answer)" }) {
			t.Errorf("by skill it is %q", told)
		}
		if shared != byDay.Items[0].TotalTokens || shared != logged || shared != s.Usage.TotalTokens || shared != done.Report.Tokens ||
			shared == 0 || calls != byDay.Items[0].Calls {
			t.Errorf("by skill %d tokens, by day %d, the log %d, the trace %d, the report %d; %d calls of %d",
				shared, byDay.Items[0].TotalTokens, logged, s.Usage.TotalTokens, done.Report.Tokens, calls, byDay.Items[0].Calls)
		}
		var viewed []string
		var q struct{ TokensBySkill db.Query }
		dbtest.Load(t, "testdata/usage", &q)
		err := w.Env.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
			var skill string
			var tokens, cost int64
			err := scan(&skill, &tokens, &cost)
			viewed = append(viewed, fmt.Sprintf("%s %d %d", skill, tokens, cost))
			return err
		}, q.TokensBySkill)
		if err != nil || !slices.Equal(viewed, told) {
			t.Errorf("the view tells %q, usage %q (%v)", viewed, told, err)
		}
	})
}
