package operate

import (
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// GoOn queues that a turn goes on at once whose process has died.
func (o *Operate) GoOn(b *db.Batch, execution string) { o.Outbox.DueNow(b, kickOf(execution)) }

// KeepPlaces queues that the turns which were due to go on, and had nobody to do so,
// keep their places in line.
func (o *Operate) KeepPlaces(b *db.Batch) { o.Outbox.DueAnew(b, Topic) }
