package heartbeat_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestOneBeatWorksInAllSixPhases runs a beat that disables a failing skill, makes a plan, runs an
// automation, does a step, reflects and remembers. The report and the activity log show each of
// these.
func TestOneBeatWorksInAllSixPhases(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		tidy, tidied := counting("tidy")
		flaky, _ := counting("flaky")
		flaky.Scope = skill.Internal
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			switch {
			case tk.Kind == "reflect":
				return llmtest.Say("flaky rests, the rest went well"), nil
			case tk.Kind == "remember" && tk.Answers == 0:
				return llmtest.Call("save_memory", `{"category": "fact", "content": "flaky is unreliable"}`), nil
			}
			return obedient(ctx, tk)
		}), tidy, flaky)
		w.thinks(t, 24, 2)
		for range 3 {
			fails := activity.Entry{
				Agent: activity.Operator, Surface: trace.Operate, Skill: "flaky", Status: activity.Error,
				Output: skill.ErrorOutput(skill.Theirs), Trace: "op_0mh8c1v2q_a7x2p1k9d4",
			}
			if err := w.Activity.Write(t.Context(), w.Workspace, fails); err != nil {
				t.Fatal(err)
			}
		}
		planned := w.plan(t, w.addObjective(t, "planned", 5), "close")
		fresh := w.addObjective(t, "fresh", 9)
		w.automate(t, "tidy up", "tidy", "")
		w.Skew.Advance(time.Hour)

		r := w.beat(t, slot(1))
		if r.Outcome != heartbeat.Completed || r.Left != 0 || len(r.Phases) != 6 {
			t.Fatalf("it is %+v", r)
		}
		for i, want := range []heartbeat.Phase{
			{Name: "heal", Done: 1}, {Name: "plan", Done: 1, ModelCalls: 2}, {Name: "automate", Done: 1},
			{Name: "advance", Done: 2, ModelCalls: 4}, {Name: "reflect", Done: 1, ModelCalls: 1}, {Name: "remember", Done: 1, ModelCalls: 2},
		} {
			got := r.Phases[i]
			if got.Name != want.Name || got.Considered != want.Done || got.Done != want.Done || got.Failed+got.Left != 0 || got.ModelCalls != want.ModelCalls {
				t.Errorf("phase %d is %+v, want %+v", i, got, want)
			}
			line := w.actions(t, activity.Filter{Trace: trace.ID(r.TraceID), Skill: "heartbeat." + want.Name})
			var told struct{ Done int }
			if len(line) != 1 || line[0].Status != activity.Success || json.Unmarshal(line[0].Output, &told) != nil || told.Done != want.Done {
				t.Errorf("of phase %s the log says %+v", want.Name, line)
			}
		}
		rests := false
		for _, d := range must(w.Registry.List(t.Context(), w.Workspace, skill.Filter{Limit: 200}))(t).Items {
			rests = rests || d.Name == "flaky" && !d.Enabled && d.DisabledBy == skill.SelfHealing
		}
		if !rests || *tidied != 1 || w.memories(t) != 1 || !strings.Contains(r.Phases[4].Text, "flaky rests") {
			t.Errorf("flaky rests: %v; %d automations, %d memories, the reflection %q", rests, *tidied, w.memories(t), r.Phases[4].Text)
		}
		if p, f := w.objective(t, planned), w.objective(t, fresh); p.Status != objective.Completed || f.PlanVersion != 1 || f.Plan[0].Status != objective.Done {
			t.Errorf("the planned objective is %+v, the fresh one %+v", p, f)
		}
		w.countedOnce(t, r)
		w.mustBeFree(t)
	})
}
