package seed_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/fstest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/seed"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// coreOn returns the core of a process on a laptop.
func coreOn(e dbtest.Env) *app.Core {
	return app.NewCore(e.DB, app.Config{LLMProvider: "demo"}, slog.New(slog.DiscardHandler), func(context.Context) (awssdk.Config, error) {
		return awssdk.Config{}, errors.New("no AWS here")
	})
}

// If a killed process has left the lane of an objective held, the next process starts nevertheless.
func TestADemoThatIsWorkedOnIsThere(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	core := coreOn(e)
	again := func() {
		t.Helper()
		if _, err := seed.Seed(t.Context(), core, app.Seeds{Demo: true}); err != nil {
			t.Fatal(err)
		}
	}
	again()
	lanes, err := lane.New(e.DB)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lanes.Acquire(t.Context(), lane.Request{Workspace: workspace.Default, Lane: lane.Objective("00000000-0000-7000-8000-0000000d0001"), Holder: "killed"}); err != nil {
		t.Fatal(err)
	}
	again()
}

// TestADemoThatIsThereNeedsNoLane: a killed process may have left the lane of the demo held, for longer than a start
// waits.
func TestADemoThatIsThereNeedsNoLane(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	core := coreOn(e)
	lanes, err := lane.New(e.DB)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seed.Seed(t.Context(), core, app.Seeds{Demo: true}); err != nil {
		t.Fatal(err)
	}
	request := lane.Request{Workspace: workspace.Default, Lane: seed.Lane, Holder: "killed", TTL: 5 * time.Minute}
	if _, err := lanes.Acquire(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if _, err := seed.Seed(t.Context(), core, app.Seeds{Demo: true}); err != nil {
		t.Error(err)
	}
}

// TestWhatWasRemovedFromTheDemoStaysAway: each new version's deployment seeds again.
func TestWhatWasRemovedFromTheDemoStaysAway(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	core := coreOn(e)
	removed := "00000000-0000-7000-8000-0000000d0001"
	var q struct{ Remove db.Query }
	text := "-- name: Remove\nDELETE FROM agent_objectives WHERE workspace_id = $1 AND id = $2;\n"
	if err := db.Load(fstest.MapFS{"test.sql": {Data: []byte(text)}}, &q); err != nil {
		t.Fatal(err)
	}
	gone := int64(0)
	for range 2 {
		if _, err := seed.Seed(t.Context(), core, app.Seeds{Demo: true}); err != nil {
			t.Fatal(err)
		}
		n, err := e.DB.Exec(t.Context(), workspace.Default, q.Remove, removed)
		if err != nil {
			t.Fatal(err)
		}
		gone += n
	}
	if gone != 1 {
		t.Errorf("the objective was there to be removed %d times", gone)
	}
}

// TestTheDemoShowsAHeal: the demo's failing skill fails a third time in the first heartbeat, and
// the second heartbeat disables the skill and its automation.
func TestTheDemoShowsAHeal(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	core := coreOn(e)
	if _, err := seed.Seed(t.Context(), core, app.Seeds{Demo: true}); err != nil {
		t.Fatal(err)
	}
	a, err := wire.New(core, "test")
	if err != nil {
		t.Fatal(err)
	}
	for beat, want := range []int{0, 1, 1} {
		if _, err := a.Heartbeat.Run(t.Context(), heartbeat.Tick{Workspace: workspace.Default, Full: true}); err != nil {
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
