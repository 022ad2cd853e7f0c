package thread

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// GetLocked reads a thread whose row it locks. It returns [db.ErrNoRows] when there is none.
func (s *Store) GetLocked(ctx context.Context, tx execution.Tx, id string) (Thread, error) {
	if _, err := s.head(ctx, tx, id); err != nil {
		return Thread{}, err
	}
	var found []Thread
	if err := tx.Each(ctx, collect(&found), s.q.Get, id, -Idle.Milliseconds()); err != nil {
		return Thread{}, err
	}
	return db.First(found, db.ErrNoRows)
}

// Answer queues a message of an execution that need not hold the thread, and may have ended: it is
// sent when nobody holds the thread, once for each key. The caller has locked the thread's row.
func (s *Store) Answer(ctx context.Context, tx execution.Tx, t Thread, m Outgoing) error {
	if err := m.check(); err != nil {
		return err
	}
	n, err := s.numbers(ctx, tx, t.ID, m.Execution)
	if err != nil {
		return fmt.Errorf("answer in thread %s: %w", t.ID, err)
	}
	if n.open >= maxOpen {
		return fmt.Errorf("answer in thread %s: %w", t.ID, ErrFull)
	}
	raw, err := json.Marshal(payload{t.ID, m.Body})
	if err != nil {
		return fmt.Errorf("answer in thread %s: %w", t.ID, err)
	}
	s.outbox.Enqueue(ctx, tx.Later(), outbox.Row{
		Kind: outbox.Message, Topic: Topic(t.Channel), Key: orderKey(t.ID) + ":" + m.Key, OrderKey: orderKey(t.ID), Seq: n.queue(),
		Payload: raw, Receiver: receiver(t), Execution: m.Execution, Trace: n.trace, Queued: true, TTL: m.TTL,
	})
	s.settle(tx.Later(), "", nil, t.ID)
	return nil
}
