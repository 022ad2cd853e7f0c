package app_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// A process that was killed has left its lane held: the next one starts all the same.
func TestADemoThatIsWorkedOnIsThere(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	core := coreOn(e)
	seed := func() {
		t.Helper()
		if _, err := app.Seed(t.Context(), core, app.Seeds{Demo: true}); err != nil {
			t.Fatal(err)
		}
	}
	seed()
	lanes, err := lane.New(e.DB)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lanes.Acquire(t.Context(), lane.Request{Workspace: workspace.Default, Lane: lane.Objective("00000000-0000-7000-8000-0000000d0001"), Holder: "killed"}); err != nil {
		t.Fatal(err)
	}
	seed()
}

// TestTheDemoShowsAHeal: the demo's failing skill fails a third time in the first beat, and
// the second disables it with its automation.
func TestTheDemoShowsAHeal(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	core := coreOn(e)
	if _, err := app.Seed(t.Context(), core, app.Seeds{Demo: true}); err != nil {
		t.Fatal(err)
	}
	a := agentOn(t, e)
	for beat, want := range []int{0, 1, 1} {
		if _, err := a.Heartbeat("test", nil).Run(t.Context(), heartbeat.Tick{Workspace: workspace.Default, Full: true}); err != nil {
			t.Fatal(err)
		}
		heals, err := a.Heals.List(t.Context(), workspace.Default, heal.Filter{Limit: 10})
		if err != nil || len(heals) != want {
			t.Errorf("after beat %d there are %+v, %v", beat+1, heals, err)
		}
	}
	automations, err := a.Automations.List(t.Context(), workspace.Default, automation.Filter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range automations {
		if x.Skill == "shop_status" && x.Enabled {
			t.Errorf("it is %+v", x)
		}
	}
}
