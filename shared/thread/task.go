package thread

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
)

// Hear opens the thread of a channel and an address, and appends what the person there has said, once
// for each key. It returns the id of the thread.
func (s *Store) Hear(ctx context.Context, tx execution.Tx, channel, address, said, key string) (string, error) {
	var found []Thread
	s.OpenIn(tx.Later(), s.ids(), channel, address)
	err := tx.Each(ctx, collect(&found), s.q.List, -Idle.Milliseconds(), channel, address, nil, db.EndOfTime, db.LastID, 1)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("open the thread of %s", channel)
	}
	if err != nil || said == "" {
		return first(found).ID, err
	}
	_, _, err = s.Append(ctx, tx, found[0].ID, Spoken{Role: User, Body: said, Key: key})
	return found[0].ID, err
}

func first(found []Thread) (t Thread) {
	if len(found) > 0 {
		t = found[0]
	}
	return t
}
