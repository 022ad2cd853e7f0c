package heartbeat_test

import (
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/run"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// must stops the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

// newHeartbeat wires a heartbeat as package app does, with a model of the test's.
func newHeartbeat(t testing.TB, d *db.DB, model llm.Model) *heartbeat.Heartbeat {
	t.Helper()
	log := slog.New(trace.NewHandler(slog.NewTextHandler(t.Output(), nil)))
	lanes, runs := must(lane.New(d))(t), must(run.New(d))(t)
	acts, objectives := must(activity.New(d, ids))(t), must(objective.New(d, ids))(t)
	skills := must(objective.Skills(objectives))(t)
	skills = append(skills, must(memory.Skills(must(memory.New(d, ids))(t), time.Now))(t)...)
	skills = append(skills, must(skill.QueryActivity(acts, time.Now))(t))
	return &heartbeat.Heartbeat{
		DB: d, Lanes: lanes, Runs: runs, Log: acts, Workspaces: must(workspace.New(d))(t), Objectives: objectives,
		Reason: &reason.Runner{Model: model, Runs: runs, Lanes: lanes, Log: acts, Slog: log, Clock: time.Now},
		Skills: must(skill.NewSet(skills...))(t), Traces: trace.NewSource(time.Now, rand.Reader),
		IDs: ids, Clock: time.Now, Slog: log, Instance: "test",
	}
}

func addObjective(t testing.TB, h *heartbeat.Heartbeat, ws db.Workspace, title string, priority int) string {
	t.Helper()
	var b db.Batch
	id := h.Objectives.Create(&b, objective.Objective{Title: title, Priority: priority, DoneCriterion: "it is there", CreatedBy: "test"})
	if err := h.DB.Do(t.Context(), ws, &b); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestBeatsCompleteAnObjective(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		h := newHeartbeat(t, e.DB, demo.New())
		id := addObjective(t, h, e.Workspace, "Write a welcome text", 5)
		for range 10 {
			before := e.DB.Stats()
			r := must(h.Run(t.Context(), heartbeat.Tick{Workspace: e.Workspace}))(t)
			t.Logf("%+v %+v", r, e.DB.Stats().Sub(before))
			if r.Outcome == heartbeat.Idle {
				break
			}
		}
		o := must(h.Objectives.Get(t.Context(), e.Workspace, id))(t)
		t.Logf("%+v", o)
		if o.Status != objective.Completed {
			t.Errorf("the objective is %s", o.Status)
		}
	})
}
