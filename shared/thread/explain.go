package thread

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// An Explanation says why a thread is or isn't free, as data and as one sentence.
type Explanation struct {
	Thread
	Summary string
	// Frees is when the lock ends at the latest, if nobody refreshes it. nil: it is free or stale,
	// so the next execution that asks acquires the thread.
	Frees   *time.Time
	Waiting []Waiter // in the order in which they go, at most [maxWaiters]
	// Blocking lists what the holder itself waits for, what that waits for, and so on, at most
	// [maxBlocking] links. Circle is a cycle among them: each execution waits for the next, and the
	// last for the first. It is empty when there is none.
	Blocking []Blocked
	Circle   []string
}

// A Waiter is a message that waits for the lock.
type Waiter struct {
	Message   string
	Execution string
	Since     time.Time
	Age       time.Duration
	Expires   *time.Time
}

const maxWaiters = 50

// Explain says who holds a thread, since when, what would free it and when, who waits, and for whom
// the holder waits. It returns [db.ErrNoRows] when there is no such thread. doing describes what
// the holder is doing.
func (s *Store) Explain(ctx context.Context, ws db.Workspace, id string, doing func(execution string) string) (Explanation, error) {
	var found []Thread
	var e Explanation
	var b db.Batch
	b.Each(collect(&found), s.q.Get, id, -Idle.Milliseconds())
	b.Each(db.Append(&e.Waiting, func(scan db.Scan, w *Waiter) error {
		var now time.Time
		err := scan(&w.Message, db.Optional(&w.Execution), &w.Since, &w.Expires, &now)
		w.Age = now.Sub(w.Since)
		return err
	}), s.q.Waiting, orderKey(id), maxWaiters)
	var links []Blocked
	b.Each(collectBlocked(&links), s.q.Blocking, id, maxBlocking)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return e, fmt.Errorf("explain thread: %w", err)
	}
	if len(found) == 0 {
		return e, fmt.Errorf("explain thread %s: %w", id, db.ErrNoRows)
	}
	e.Thread = found[0]
	if e.Lock.State == Active {
		e.Blocking, e.Circle = chainFrom(e.Lock.Execution(), links)
	}
	e.Summary = e.summary(doing)
	return e, nil
}

// summary returns the sentence, and sets Frees.
func (e *Explanation) summary(doing func(string) string) string {
	var out strings.Builder
	l := e.Lock
	if l.Holder == "" {
		fmt.Fprintf(&out, "thread %s is free", e.ID)
	} else {
		fmt.Fprintf(&out, "thread %s is held by execution %s", e.ID, l.Execution())
		if at := doing(l.Execution()); at != "" {
			fmt.Fprintf(&out, ", %s", at)
		}
		fmt.Fprintf(&out, ", last heard of %s ago", l.Age.Round(time.Second))
	}
	switch now := l.Since.Add(l.Age); {
	case l.Holder == "":
	case l.State == Stale:
		out.WriteString("; the lock is stale: the next to ask has the thread")
	default:
		frees := l.Since.Add(Idle)
		if l.ParkedBy == l.Holder && l.ParkedUntil != nil {
			out.WriteString("; it is parked until the person answers")
			switch e.Policy {
			case Supersede:
				out.WriteString(" or another asks")
			case HandOver:
				out.WriteString(", and others have it meanwhile")
			case Queue:
			}
			frees = *l.ParkedUntil
		}
		e.Frees = &frees
		fmt.Fprintf(&out, "; it ends with the execution, and in %s at the latest unless refreshed", frees.Sub(now).Round(time.Second))
	}
	if len(e.Waiting) > 0 {
		first := e.Waiting[0]
		fmt.Fprintf(&out, "; %d queued behind it, the first of execution %s since %s", e.Queued, first.Execution, first.Age.Round(time.Second))
	}
	e.tellBlocking(&out)
	return out.String()
}
