package thread

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// OpenIn queues a new thread with an id that the caller made.
func (s *Store) OpenIn(b *db.Batch, id, channel, address string) {
	b.Exec(s.q.Open, id, channel, address, Queue, json.RawMessage("{}"))
}

// Lately reads the newest messages of a thread, at most limit, oldest first.
func (s *Store) Lately(ctx context.Context, ws db.Workspace, thread string, limit int) ([]Spoken, error) {
	var out []Spoken
	err := s.db.Each(ctx, ws, collectSpoken(&out), s.q.Lately, thread, limit)
	if err != nil {
		return nil, fmt.Errorf("read the latest messages of thread %s: %w", thread, err)
	}
	slices.Reverse(out)
	return out, nil
}

// Forget queues the deletion of an execution's messages in a thread.
func (s *Store) Forget(b *db.Batch, thread, execution string) {
	b.Exec(s.q.Forget, thread, execution)
}

func collectSpoken(into *[]Spoken) func(db.Scan) error {
	return func(scan db.Scan) error {
		var m Spoken
		var execution, key *string
		if err := scan(&m.ID, &m.Seq, &m.Role, &m.Body, &execution, &key, &m.Data, &m.CreatedAt); err != nil {
			return err
		}
		m.Execution, m.Key = text(execution), text(key)
		*into = append(*into, m)
		return nil
	}
}
