package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
)

// Outcome says how an execution got a thread.
type Outcome string

// The outcomes of asking for a thread.
const (
	Acquired   Outcome = "acquired"
	Refreshed  Outcome = "refreshed"   // the execution held it already
	Inherited  Outcome = "inherited"   // from an execution that waits for the asker
	HandedOver Outcome = "handed_over" // by an execution that has parked it
	Cleared    Outcome = "cleared"     // the previous lock was stale, or superseded
)

// ErrNotHeld means that an execution does not hold the thread.
var ErrNotHeld = errors.New("the execution does not have the thread")

// A HeldError means that another execution holds the thread. It says which one.
type HeldError struct {
	Thread string
	Lock   Lock
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("thread %s is held by execution %s", e.Thread, e.Lock.Execution())
}

// RetryAfter returns how long it takes until the lock is stale, unless its holder does something.
func (e *HeldError) RetryAfter() time.Duration {
	left := max(0, Idle-e.Lock.Age)
	if e.Lock.ParkedBy == e.Lock.Holder && e.Lock.ParkedUntil != nil {
		left = max(left, e.Lock.ParkedUntil.Sub(e.Lock.Since)-e.Lock.Age)
	}
	return left
}

// Lock acquires a thread for an execution, or refreshes its hold, in one round trip. It returns a
// [HeldError] when another execution holds the thread, an [execution.EndedError] when the execution
// has ended, and [db.ErrNoRows] when the thread or the execution does not exist.
func (s *Store) Lock(ctx context.Context, ws db.Workspace, thread, execution string) (Outcome, error) {
	var b db.Batch
	outcome := s.LockIn(&b, thread, execution)
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return "", fmt.Errorf("lock thread: %w", err)
	}
	return outcome(ctx)
}

// LockIn is Lock in a batch. The outcome is known, and is logged, once the batch was committed.
func (s *Store) LockIn(b *db.Batch, thread, execution string) (outcome func(context.Context) (Outcome, error)) {
	t := s.take(b, thread, execution)
	return func(ctx context.Context) (Outcome, error) { return t.outcome(ctx, s.log) }
}

// TakeFree adds to a batch that an execution takes a thread if nobody holds it. The transaction must
// have begun the execution, without a parent, and have locked the thread's row, which [Store.Append]
// does. taken is called after the commit: it logs, and returns false where [Store.Lock] has to decide.
func (s *Store) TakeFree(b *db.Batch, thread, execution string) (taken func(context.Context) bool) {
	op := b.Exec(s.q.TakeFree, thread, execution, json.RawMessage(list(execution)))
	return func(ctx context.Context) bool {
		if op.Affected() == 0 {
			return false
		}
		s.log.InfoContext(ctx, "thread "+string(Acquired), "thread", thread, "execution", execution, "from", "")
		return true
	}
}

// taking is an execution's try to acquire a thread, with the outcome.
type taking struct {
	thread, execution string
	asker             execution.Status
	before            Lock
	after             []Thread
}

// take adds the try to a batch. It locks the asker's row and the thread's row; then one statement
// decides.
func (s *Store) take(b *db.Batch, thread, execution string) *taking {
	t := &taking{thread: thread, execution: execution}
	b.Each(func(scan db.Scan) error { return scan(&t.asker) }, s.q.Asker, execution)
	b.Each(t.before.scan, s.q.Head, thread)
	b.Exec(s.q.Take, thread, execution, -Idle.Milliseconds())
	b.Exec(s.q.Wake, list(thread), queueBase)
	b.Each(collect(&t.after), s.q.Get, thread, -Idle.Milliseconds())
	return t
}

// scan reads the lock's columns of a row.
func (l *Lock) scan(scan db.Scan) error {
	var stack json.RawMessage
	if err := scan(db.Optional(&l.Holder), &stack, db.Optional(&l.ParkedBy), db.Optional(&l.Author)); err != nil {
		return err
	}
	return json.Unmarshal(stack, &l.Stack)
}

// decide returns the result of the try.
func (t *taking) decide() (Outcome, error) {
	switch {
	case len(t.after) == 0:
		return "", fmt.Errorf("lock thread %s: %w", t.thread, db.ErrNoRows)
	case t.asker == "":
		return "", fmt.Errorf("lock thread for execution %s: %w", t.execution, db.ErrNoRows)
	case t.asker.Ended():
		return "", fmt.Errorf("lock thread: %w", &execution.EndedError{ID: t.execution, Status: t.asker})
	}
	was, now := t.before, t.after[0].Lock
	switch {
	case now.Holder != t.execution:
		return "", &HeldError{Thread: t.thread, Lock: now}
	case was.Holder == t.execution:
		return Refreshed, nil
	case was.Holder == "" || was.Author == t.execution:
		return Acquired, nil
	case len(now.Stack) > 1 && was.Holder == now.Stack[len(now.Stack)-2]:
		if was.Holder == now.ParkedBy {
			return HandedOver, nil
		}
		return Inherited, nil
	}
	return Cleared, nil
}

// outcome returns and logs the result of the try, after the commit.
func (t *taking) outcome(ctx context.Context, log *slog.Logger) (Outcome, error) {
	how, err := t.decide()
	if held, ok := errors.AsType[*HeldError](err); ok { // the caller is told, and may ask each second
		log.DebugContext(ctx, "thread refused", "thread", t.thread, "execution", t.execution,
			"holder", held.Lock.Execution(), "age", held.Lock.Age)
	}
	if err != nil {
		return "", err
	}
	level := slog.LevelInfo
	switch how {
	case Refreshed:
		level = slog.LevelDebug
	case Cleared:
		level = slog.LevelWarn
	case Acquired, Inherited, HandedOver:
	}
	log.Log(ctx, level, "thread "+string(how), "thread", t.thread, "execution", t.execution, "from", t.before.Execution())
	return how, nil
}

// Unlock releases a thread. The next of its stack holds it then, else the head of its queue. It
// returns [ErrNotHeld] when the execution does not hold the thread.
func (s *Store) Unlock(ctx context.Context, tx execution.Tx, thread, execution string) error {
	was, err := s.head(ctx, tx, thread)
	if err == nil && was.Holder != execution {
		err = ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("unlock thread %s: %w", thread, err)
	}
	s.settle(tx.Later(), execution, nil, thread)
	return nil
}

// ForceUnlock takes a thread from everything on its stack, whatever they do. It returns the
// previous lock, or [ErrNotHeld] when nobody held the thread.
func (s *Store) ForceUnlock(ctx context.Context, tx execution.Tx, thread string) (Lock, error) {
	was, err := s.head(ctx, tx, thread)
	if err == nil && was.Holder == "" {
		err = ErrNotHeld
	}
	if err != nil {
		return Lock{}, fmt.Errorf("force thread %s free: %w", thread, err)
	}
	tx.Later().Exec(s.q.Unpark, thread)
	s.settle(tx.Later(), "", 0, thread)
	return was, nil
}

// Release releases all threads that an execution holds, and returns how many. Call it in the
// transaction that ends the execution, after the end. It does not log: the transaction may be rolled
// back.
func (s *Store) Release(ctx context.Context, tx execution.Tx, execution string) (int, error) {
	var held []string
	if err := tx.Each(ctx, db.Column(&held), s.q.Held, execution); err != nil {
		return 0, fmt.Errorf("release the threads of execution %s: %w", execution, err)
	}
	if len(held) == 0 {
		return 0, nil
	}
	var free []string // which is usual, and needs far less than Settle
	if err := tx.Each(ctx, db.Column(&free), s.q.FreeOf, execution, json.RawMessage(list(execution))); err != nil {
		return 0, fmt.Errorf("release the threads of execution %s: %w", execution, err)
	}
	others := slices.DeleteFunc(slices.Clone(held), func(id string) bool { return slices.Contains(free, id) })
	if len(others) > 0 {
		s.settle(tx.Later(), execution, nil, others...)
	}
	return len(held), nil
}

// End ends an execution as [execution.Store.End] does, and releases its threads.
func (s *Store) End(ctx context.Context, tx execution.Tx, execution string, as execution.Status,
	result json.RawMessage, message string) error {
	if err := s.runs.End(ctx, tx, execution, as, result, message); err != nil {
		return err
	}
	_, err := s.Release(ctx, tx, execution)
	return err
}

// head locks a thread's row and reads its lock.
func (s *Store) head(ctx context.Context, tx execution.Tx, thread string) (Lock, error) {
	var l Lock
	there := false
	err := tx.Each(ctx, func(scan db.Scan) error { there = true; return l.scan(scan) }, s.q.Head, thread)
	if err == nil && !there {
		err = db.ErrNoRows
	}
	return l, err
}

// settle decides again who holds the threads; the caller has locked their rows. letGo is the
// execution or message that releases them; empty: none. idle is an offset in milliseconds from now:
// holders that did nothing since then are removed. Messages of the new holders then leave the
// queue.
func (s *Store) settle(b *db.Batch, letGo string, idle any, threads ...string) {
	b.Exec(s.q.Settle, list(threads...), db.Null(letGo), idle)
	b.Exec(s.q.Wake, list(threads...), queueBase)
}

// list encodes ids as a JSON argument.
func list(ids ...string) string {
	return db.Encode(ids)
}
