package coordinate

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// KickTopic is the topic of the row that wakes the cycle of its workspace. Its handler calls
// [Coordinator.Cycle].
const KickTopic = "coordinator"

// Kick adds to a batch the row that wakes the cycle of the workspace. A workspace has one such row. One
// that is being handled becomes due again.
func Kick(ctx context.Context, o *outbox.Store, b *db.Batch) {
	o.ReviveNow(ctx, b, outbox.Row{Kind: outbox.Kick, Topic: KickTopic, Key: KickTopic})
}

// Again is [Kick] in a transaction of its own.
func (c *Coordinator) Again(ctx context.Context, ws db.Workspace) error {
	var b db.Batch
	Kick(ctx, c.Outbox, &b)
	if err := c.DB.Do(ctx, ws, &b); err != nil {
		return fmt.Errorf("ask for a cycle: %w", err)
	}
	return nil
}
