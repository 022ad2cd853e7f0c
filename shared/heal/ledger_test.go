package heal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/retain"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

func (w world) enable(t testing.TB, name string) {
	t.Helper()
	if err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		_, _, err := w.skills.Enable(ctx, tx, w.Workspace, name, skill.Human)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func (w world) undo(t testing.TB, id string) error {
	t.Helper()
	return w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		_, _, err := w.s.Undo(ctx, tx, w.Workspace, id, "user:7")
		return err
	})
}

func TestALaterHealGivesBackWhatAnEarlierOneTook(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.skill(t, "weather", "w.example")
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		w.beat(t)
		w.enable(t, "weather") // the skill only, by a person
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		w.beat(t)
		if err := w.undo(t, w.ledger(t)[0].ID); err != nil {
			t.Fatal(err)
		}
		w.is(t, "weather", true)
	})
}

func TestAFailedProbeRemembersWhatItTook(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.skill(t, "weather", "w.example")
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		w.beat(t)
		w.Skew.Advance(25 * time.Hour)
		w.beat(t)
		if err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.automations.Create(ctx, tx, automation.Automation{Name: "second", Skill: "weather", Cron: "@hourly", Enabled: true, CreatedBy: "test"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		w.calls(t, "weather", "theirs")
		w.beat(t)
		if err := w.undo(t, w.ledger(t)[0].ID); err != nil {
			t.Fatal(err)
		}
		w.is(t, "weather", true)
		if a, err := w.automations.Get(t.Context(), w.Workspace, "second"); err != nil || !a.Enabled {
			t.Errorf("the second automation was not given back: %+v, %v", a.Enabled, err)
		}
	})
}

func TestUndoKeepsAHumansDisable(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.skill(t, "weather", "w.example")
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		w.beat(t)
		if err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, _, err := w.skills.Disable(ctx, tx, w.Workspace, "weather", skill.Human, "mine")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.undo(t, w.ledger(t)[0].ID); !errors.Is(err, skill.ErrByHuman) {
			t.Errorf("undone: %v", err)
		}
		if on, _ := w.enabled(t, "weather"); on {
			t.Error("undo enabled what a human had disabled afterwards")
		}
	})
}

func TestAnOrphanTakenUpMeanwhileIsLeftAlone(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := ids()
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Executions, id, "op", "execution:"+id, "running"); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(2 * time.Hour)
		var b db.Batch
		found := w.s.Orphans(&b)
		if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		if len(found.Cut) != 1 {
			t.Fatalf("orphans are %v", found.Cut)
		}
		_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Touch, id) // resumed
		err = errors.Join(err, w.close(t, id))
		var status string
		if err := errors.Join(err, w.DB.One(t.Context(), w.Workspace, []any{&status}, w.q.StatusOf, id)); err != nil || status != "running" {
			t.Errorf("a live execution is %s, %v", status, err)
		}
	})
}

// TestHealsThatAreOverGo when they exceed the retention of activity. A heal that can still be
// undone stays.
func TestHealsThatAreOverGo(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		purge, err := retain.New(w.DB)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"weather", "news"} {
			w.skill(t, name, name+".example")
			w.calls(t, name, "theirs", "theirs", "theirs")
			w.beat(t)
		}
		if err := w.undo(t, w.ledger(t)[0].ID); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			advance time.Duration
			want    int
		}{{0, 2}, {15 * 24 * time.Hour, 2}, {2 * 24 * time.Hour, 1}} { // a relapse counts for 16 days
			w.Skew.Advance(step.advance)
			_, err = purge.Purge(t.Context(), w.Workspace, retain.Retention{Activity: 5 * 24 * time.Hour, Events: 7 * 24 * time.Hour, Outbox: 30 * 24 * time.Hour})
			if left := w.ledger(t); err != nil || len(left) != step.want || left[len(left)-1].Skill != "weather" {
				t.Errorf("after %s there are %+v, %v", step.advance, left, err)
			}
		}
	})
}

func TestASkillChangedAfterTheLookStays(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.skill(t, "weather", "w.example")
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		var b db.Batch
		look := w.s.Look(&b)
		page, err := w.skills.List(t.Context(), w.Workspace, skill.Filter{Limit: 200})
		if err := errors.Join(err, w.DB.Read(t.Context(), w.Workspace, &b)); err != nil {
			t.Fatal(err)
		}
		d, _ := w.skills.Get(t.Context(), w.Workspace, "weather")
		fixed := "fixed by a person"
		if err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.skills.Patch(ctx, tx, w.Workspace, d, skill.Patch{Description: &fixed})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		err = w.lanes.Do(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Heartbeat, Holder: "test"}, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
			return w.lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
				_, err := w.s.Heal(ctx, tx, w.Workspace, look, page.Items)
				return err
			})
		})
		if on, _ := w.enabled(t, "weather"); err != nil || !on {
			t.Errorf("a skill that was changed after the look is enabled: %v, %v", on, err)
		}
	})
}
