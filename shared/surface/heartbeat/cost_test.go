package heartbeat_test

import (
	"context"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// TestWhatOneAutomationCosts checks the cost of a beat that runs one automation. The first beat of a
// process also reads the prices of models.
func TestWhatOneAutomationCosts(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := counting("tidy")
		w := newWorld(t, e, idle(t), k)
		w.automate(t, "tidy up", "tidy", "")
		for n, want := range []db.Stats{{Statements: 58, RoundTrips: 17}, {Statements: 57, RoundTrips: 16}} {
			w.Skew.Advance(61 * time.Minute)
			before := w.DB.Stats()
			w.beat(t, slot(n))
			if got := w.DB.Stats().Sub(before); got != want || *ran != n+1 {
				t.Errorf("run %d takes %+v, want %+v", *ran, got, want)
			}
		}
	})
}

// TestWhatOneReflectionCosts checks the cost of a beat that only reflects.
func TestWhatOneReflectionCosts(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		asked := 0
		k, _ := counting("tidy")
		w := newWorld(t, e, pilot(func(context.Context, task) (llmtest.Step, error) {
			asked++
			return llmtest.Say("all is well"), nil
		}), k)
		w.automate(t, "tidy up", "tidy", "")
		w.Skew.Advance(61 * time.Minute)
		w.beat(t, slot(0))
		w.thinks(t, 24, 0)
		before := w.DB.Stats()
		w.beat(t, slot(1))
		if got, want := w.DB.Stats().Sub(before), (db.Stats{Statements: 67, RoundTrips: 21}); got != want || asked != 1 {
			t.Errorf("%d reflections take %+v, want %+v", asked, got, want)
		}
	})
}
