package automation_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A transaction that proves another automation's lane can neither claim nor end.
func TestAClaimProvesItsLane(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.hourly(t, "sweep the floor").ID
		other, err := w.lanes.Acquire(t.Context(), lane.Request{
			Workspace: w.Workspace,
			Lane:      lane.Automation(uuid.NewString()),
			Holder:    "test",
			TTL:       time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, write := range map[string]func(context.Context, lane.Tx) error{
			"claim": func(ctx context.Context, tx lane.Tx) error {
				_, _, err := w.s.Claim(ctx, tx, id)
				return err
			},
			"end": func(_ context.Context, tx lane.Tx) error { return w.s.Ended(tx, id, "success", trace.ID("")) },
		} {
			if err := w.lanes.InHold(t.Context(), other, write); !errors.Is(err, lane.ErrNotProven) {
				t.Errorf("%s under another lane: %v, want %v", name, err, lane.ErrNotProven)
			}
			if err := write(t.Context(), lane.Tx{}); !errors.Is(err, lane.ErrNotProven) {
				t.Errorf("%s without any proof: %v, want %v", name, err, lane.ErrNotProven)
			}
		}
	})
}

// A claim takes only settled events. An event that was recorded after an open transaction is left
// to the next claim, because events of that transaction come before it.
func TestAClaimTakesNoEventBehindAnOpenTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		if w.DB.Dialect() == db.SQLite {
			return // SQLite has one writer
		}
		a, err := w.create(t, automation.Automation{Name: "on memories", Skill: "echo", Event: "memory.saved"})
		if err != nil {
			t.Fatal(err)
		}
		q := w.queries(t)
		w.happens(t, "memory.saved", "settled")
		err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, q.Happens, "memory.saved", "of the open transaction"); err != nil {
				return err
			}
			w.aside(t, func(w world) {
				w.sql(t, q.Happens, "memory.saved", "behind it")
				if r, ok := w.claim(t, a.ID); !ok || r.Event.Count != 1 || r.Event.Subject != "settled" {
					t.Errorf("claimed %+v of %+v, %v; want the settled event alone", r.Event, r, ok)
				}
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for open := 1; open > 0; {
			if err := w.DB.One(t.Context(), w.Workspace, []any{&open}, q.Unsettled); err != nil {
				t.Fatal(err)
			}
		}
		if r, ok := w.claim(t, a.ID); !ok || r.Event.Count != 2 {
			t.Errorf("then it claimed %+v of %+v, %v; want both others", r.Event, r, ok)
		}
	})
}

// Two people edit the version that both have read: one is refused.
func TestAnEditIsOfTheVersionThatWasRead(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		read := w.hourly(t, "sweep the floor")
		edit := func(skill string) error {
			return w.tx(t, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.Patch(ctx, tx, read, automation.Patch{Skill: &skill})
				return err
			})
		}
		if err := edit("echo_once"); err != nil {
			t.Fatal(err)
		}
		if err := edit("echo_twice"); !errors.Is(err, automation.ErrChanged) {
			t.Errorf("the second edit: %v, want %v", err, automation.ErrChanged)
		}
		if a := w.get(t, read.ID); a.Skill != "echo_once" {
			t.Errorf("it runs %s, want echo_once", a.Skill)
		}
	})
}
