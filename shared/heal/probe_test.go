package heal_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// automate adds automations of a skill. Those whose name says so start after an event.
func (w world) automate(t testing.TB, use string, names ...string) {
	t.Helper()
	err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		for _, name := range names {
			a := automation.Automation{Name: name, Skill: use, Cron: "@hourly", Enabled: true, CreatedBy: "test"}
			if name[0] == 'e' {
				a.Cron, a.Event = "", "memory.saved"
			}
			if _, err := w.automations.Create(ctx, tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// on returns the names of the enabled automations.
func (w world) on(t testing.TB) (names []string) {
	t.Helper()
	all, err := w.automations.List(t.Context(), w.Workspace, automation.Filter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if a.Enabled {
			names = append(names, a.Name)
		}
	}
	return names
}

// delete deletes an automation.
func (w world) delete(t testing.TB, name string) {
	t.Helper()
	a, err := w.automations.Get(t.Context(), w.Workspace, name)
	if err == nil {
		err = w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.automations.Delete(ctx, tx, a.ID); return err })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// disable disables an automation as a human.
func (w world) disable(t testing.TB, name string) {
	t.Helper()
	a, err := w.automations.Get(t.Context(), w.Workspace, name)
	if err == nil {
		err = w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, _, err := w.automations.Disable(ctx, tx, a, skill.Human, "mine")
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAProbeFindsAnAutomationThatRuns: it prefers one with a schedule to one that waits for an
// event, and skips automations that were deleted or that a human has disabled.
func TestAProbeFindsAnAutomationThatRuns(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.automate(t, "weather", "event", "cron 1", "cron 2", "cron 3", "cron 4")
		w.skill(t, "weather", "weather.example")
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		w.beat(t)
		w.delete(t, "cron 1")
		w.disable(t, "cron 2")
		w.Skew.Advance(25 * time.Hour)
		r := w.beat(t)
		if got := w.on(t); len(r.Probing) != 1 || !slices.Equal(got, []string{"cron 3"}) {
			t.Errorf("%+v tries %v", r, got)
		}
	})
}

// TestAProbeThatNobodyMakesEnds: its automation was deleted, so the others are enabled, and one
// call still decides. If no call comes for the same time again, the probation ends.
func TestAProbeThatNobodyMakesEnds(t *testing.T) {
	for _, call := range []string{"", "theirs"} {
		onEach(t, func(t *testing.T, w world) {
			w.skill(t, "weather", "weather.example")
			w.automate(t, "weather", "cron", "event")
			w.calls(t, "weather", "theirs", "theirs", "theirs")
			w.beat(t)
			w.Skew.Advance(25 * time.Hour)
			w.beat(t)
			if got := w.on(t); !slices.Equal(got, []string{"weather"}) {
				t.Fatalf("it tries %v", got)
			}
			w.delete(t, "weather")
			w.Skew.Advance(25 * time.Hour)
			if w.beat(t); len(w.on(t)) > 0 {
				t.Errorf("%v are back too soon", w.on(t))
			}
			w.Skew.Advance(2 * time.Hour)
			r := w.beat(t)
			if got := w.on(t); len(r.Probing) != 1 || r.Probing[0].Automations != 2 || !slices.Equal(got, []string{"cron", "event"}) {
				t.Errorf("%+v tries %v", r, got)
			}
			if call != "" {
				w.calls(t, "weather", call)
				w.Skew.Advance(27 * time.Hour) // both are due: the call decides
				if r := w.beat(t); len(r.Disabled) != 1 || len(w.on(t)) > 0 || w.ledger(t)[0].Probes != 1 {
					t.Errorf("a failure leaves %v on: %+v", w.on(t), r)
				}
				return
			}
			w.Skew.Advance(27 * time.Hour)
			if r := w.beat(t); len(r.Restored) != 1 || len(w.on(t)) != 2 || w.ledger(t)[0].Status != heal.Restored {
				t.Errorf("at last %v are on: %+v", w.on(t), r)
			}
		})
	}
}

// TestAProbeOfWhatAHumanDisabledIsOver, and does not wait forever.
func TestAProbeOfWhatAHumanDisabledIsOver(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.skill(t, "weather", "weather.example")
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		w.beat(t)
		w.Skew.Advance(25 * time.Hour)
		w.beat(t)
		if err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, _, err := w.skills.Disable(ctx, tx, w.Workspace, "weather", skill.Human, "mine")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(27 * time.Hour)
		w.beat(t)
		if on, _ := w.enabled(t, "weather"); on || w.ledger(t)[0].Status != heal.Superseded {
			t.Errorf("it is enabled: %v, the ledger has %+v", on, w.ledger(t))
		}
	})
}

// TestWhatFailsAnewIsNotTriedInTheSameBeat, after a person had enabled it.
func TestWhatFailsAnewIsNotTriedInTheSameBeat(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.skill(t, "weather", "weather.example")
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		w.beat(t)
		w.enable(t, "weather")
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		w.Skew.Advance(25 * time.Hour)
		if r := w.beat(t); len(r.Disabled) != 1 || len(r.Probing) > 0 {
			t.Errorf("it is %+v", r)
		}
		w.is(t, "weather", false)
	})
}

// TestAnOutageBeginsUnevenly: skills with more calls fail earlier. Skills that were disabled before
// the outage was visible still count.
func TestAnOutageBeginsUnevenly(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		names := []string{"a", "b", "c"}
		for i, name := range names {
			w.skill(t, name, "one.example")
			w.calls(t, name, slices.Repeat([]string{"theirs"}, 3-i)...)
		}
		for beat := range 3 {
			if r := w.beat(t); len(r.Disabled) > 0 || len(r.Outages) != 1 || r.Outages[0].Skills != 3 || r.Outages[0].Failures != 3+beat {
				t.Errorf("beat %d is %+v", beat, r)
			}
			for _, name := range names {
				w.is(t, name, true)
				w.calls(t, name, "theirs")
			}
		}
		w.calls(t, "b", "success")
		w.calls(t, "c", "success")
		if r := w.beat(t); len(r.Disabled) != 1 {
			t.Errorf("a fails alone: %+v", r)
		}
		w.calls(t, "b", "theirs", "theirs", "theirs") // a is disabled
		if r := w.beat(t); len(r.Disabled) > 0 || len(r.Outages) != 1 || r.Outages[0].Skills != 2 {
			t.Errorf("two of three fail: %+v", r)
		}
		w.is(t, "b", true)
	})
}

// TestASuccessfulProbeGivesBackInAnOutageToo, even if other skills of its provider fail.
func TestASuccessfulProbeGivesBackInAnOutageToo(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, name := range []string{"a", "b", "c"} {
			w.skill(t, name, "one.example")
		}
		w.calls(t, "a", "theirs", "theirs", "theirs")
		w.beat(t)
		w.Skew.Advance(25 * time.Hour)
		w.beat(t)
		w.calls(t, "a", "success")
		w.calls(t, "b", "theirs", "theirs", "theirs")
		w.calls(t, "c", "theirs")
		if r := w.beat(t); len(r.Restored) != 1 || len(r.Outages) != 1 || len(r.Disabled) > 0 {
			t.Errorf("it is %+v", r)
		}
	})
}
