package heal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/heal"
)

// Two people undo one heal at the same time: the first succeeds, and the second gets ErrEnded.
func TestOfTwoWhoUndoAHealOneDoes(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.skill(t, "weather", "w.example")
		w.calls(t, "weather", "theirs", "theirs", "theirs")
		w.beat(t)
		id := w.ledger(t)[0].ID
		done, second := make(chan struct{}), error(nil)
		first := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			if _, _, err := w.s.Undo(ctx, tx, w.Workspace, id, "user:first"); err != nil {
				return err
			}
			go func() {
				defer close(done)
				second = w.undo(t, id)
			}()
			dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
			return nil
		})
		<-done
		if first != nil || !errors.Is(second, heal.ErrEnded) {
			t.Errorf("the first: %v; the second: %v, want %v", first, second, heal.ErrEnded)
		}
		if h := w.ledger(t)[0]; h.Status != heal.Undone || h.EndedBy != "user:first" {
			t.Errorf("the ledger has %+v", h)
		}
	})
}
