package thread

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
)

// OpenIn queues a new thread with an id that the caller made.
func (s *Store) OpenIn(b *db.Batch, id, channel, address string) {
	b.Exec(s.q.Open, id, channel, address, Queue, json.RawMessage("{}"))
}

// maxLately is how many bytes the bodies of a thread's newest messages have together at most.
const maxLately = 4 << 20

// Lately reads the newest messages of a thread, at most limit and 4 MiB of text, oldest first.
func (s *Store) Lately(ctx context.Context, ws db.Workspace, thread string, limit int) ([]Spoken, error) {
	var b db.Batch
	spoken := s.ReadLately(&b, thread, limit)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("read the latest messages of thread %s: %w", thread, err)
	}
	return spoken(), nil
}

// ReadLately adds the read of [Store.Lately] to a batch. Call the returned function once, after the batch
// was sent.
func (s *Store) ReadLately(b *db.Batch, thread string, limit int) func() []Spoken {
	newest := new([]Spoken)
	b.Each(collectSpoken(newest), s.q.Lately, thread, limit, maxLately)
	return func() []Spoken {
		slices.Reverse(*newest)
		return *newest
	}
}

// ReadUnsent adds to a batch a read of what executions have said in a thread and its channel has not taken, of
// the newest limit messages, oldest first. Call the returned function once, after the batch was sent. A message
// that is sent meanwhile is read by a [Store.ReadLately] that follows in the batch, under the same id.
func (s *Store) ReadUnsent(b *db.Batch, thread string, limit int) func() []Spoken {
	newest := new([]Spoken)
	b.Each(db.Append(newest, func(scan db.Scan, m *Spoken) error {
		var raw json.RawMessage
		var p payload
		err := scan(&m.ID, &m.Seq, &raw, db.Optional(&m.Execution), &m.CreatedAt)
		m.Role = Assistant
		if err == nil {
			err = json.Unmarshal(raw, &p)
		}
		m.Body = p.Body
		return err
	}), s.q.Unsent, thread, limit)
	return func() []Spoken {
		slices.Reverse(*newest)
		return *newest
	}
}

// Latest returns the newest of messages that [Store.Lately] would read, if a thread had those alone.
func Latest(all []Spoken, limit int) []Spoken {
	all = all[max(0, len(all)-limit):]
	bytes := 0
	for i, m := range slices.Backward(all) {
		if bytes += len(m.Body); bytes > maxLately {
			return all[i+1:]
		}
	}
	return all
}

// LatelyIn locks the thread's row, and reads its newest messages as [Store.Lately] does.
func (s *Store) LatelyIn(ctx context.Context, tx execution.Tx, thread string, limit int) ([]Spoken, error) {
	var out []Spoken
	if _, err := s.head(ctx, tx, thread); err != nil {
		return nil, fmt.Errorf("lock thread %s: %w", thread, err)
	}
	if err := tx.Each(ctx, collectSpoken(&out), s.q.Lately, thread, limit, maxLately); err != nil {
		return nil, fmt.Errorf("read the latest messages of thread %s: %w", thread, err)
	}
	slices.Reverse(out)
	return out, nil
}

// AddressIn adds the read of the thread of an address to a batch: its id and its metadata alone, because
// each message of a visitor needs it. The result is empty when there is none.
func (s *Store) AddressIn(b *db.Batch, channel, address string) *[]Thread {
	found := new([]Thread)
	b.Each(db.Append(found, func(scan db.Scan, t *Thread) error {
		var metadata json.RawMessage
		if err := scan(&t.ID, &metadata); err != nil {
			return err
		}
		t.Channel, t.Address = channel, address
		if err := json.Unmarshal(metadata, &t.Metadata); err != nil {
			return fmt.Errorf("thread %s: %w", t.ID, err)
		}
		return nil
	}), s.q.Address, channel, address)
	return found
}

// Forget queues the deletion of an execution's messages in a thread.
func (s *Store) Forget(b *db.Batch, thread, execution string) {
	b.Exec(s.q.Forget, thread, execution)
}

func collectSpoken(into *[]Spoken) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, m *Spoken) error {
		return scan(&m.ID, &m.Seq, &m.Role, &m.Body, db.Optional(&m.Execution), db.Optional(&m.Key), &m.Data, &m.CreatedAt)
	})
}
