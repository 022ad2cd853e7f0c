package automation_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A transaction that proves another automation's lane neither claims nor ends.
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
