package app_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
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
