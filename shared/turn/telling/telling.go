// Package telling reports what happens in a turn to listeners, from the turn's journal. It also gives a
// turn a context that does not end when the caller disconnects. It knows no protocol: a [Listener] does.
package telling

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/follow"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// Longest is how long a turn may take in the caller's process. After that another process continues it.
const Longest = 9 * time.Minute

// lookTime is how long one read of a journal may take.
const lookTime = 10 * time.Second

// Outlasting returns a context for a turn, which does not end when the caller disconnects. It ends
// after [Longest], at the deadline of the invocation, or when drain is closed, then with the cause
// [reason.ErrStopped].
func Outlasting(ctx context.Context, drain <-chan struct{}) (context.Context, context.CancelFunc) {
	until := time.Now().Add(Longest)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	stoppable, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, cancel := context.WithDeadline(stoppable, until)
	go func() {
		select {
		case <-drain:
			stop(reason.ErrStopped)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// A Listener receives what happens in an execution. Its methods are called one at a time.
type Listener interface {
	Begin() (on bool) // is called first; false: the listener wants nothing more
	Event(e turn.Event)
	Still() // nothing has happened for a while
	Done(r turn.Reply)
}

// Executions are the executions that are followed in this process. All followers of an execution share
// a reader, once they have caught up. It must be made by [New].
type Executions struct {
	runner  *turn.Runner
	streams sse.Streams
	hub     follow.Hub[followed, place, news]
}

// New makes the executions of a runner. The streams must have their defaults.
func New(r *turn.Runner, streams sse.Streams) *Executions {
	e := &Executions{runner: r, streams: streams}
	e.hub.Look, e.hub.Compare, e.hub.Ticks = e.look, place.compare, streams.Ticks
	return e
}

// followed is an execution that is followed.
type followed struct {
	ws db.Workspace
	id string
}

// place is a position in the news of an execution: after the entry of the journal with the number seq,
// or also after the last news, how the execution has ended.
type place struct {
	seq  int
	over bool
}

func (p place) compare(q place) int {
	switch {
	case p.seq == q.seq && !p.over && q.over:
		return -1
	case p.seq == q.seq && p.over && !q.over:
		return 1
	}
	return cmp.Compare(p.seq, q.seq)
}

// news is an entry of a journal, or how its execution has ended or why it waits.
type news struct {
	turn.Heard
	ended *turn.Reply
}

// look reads the news of an execution after a position, for all its followers.
func (x *Executions) look(ctx context.Context, of followed, after place) (page follow.Page[place, news], err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	all, ended, err := x.runner.Since(ctx, of.ws, of.id, after.seq)
	page.Next = after
	for _, h := range all {
		page.Next = place{seq: h.Seq}
		page.Items = append(page.Items, follow.Item[place, news]{After: page.Next, What: news{Heard: h}})
	}
	if ended != nil {
		page.Next.over, page.End = true, true
		page.Items = append(page.Items, follow.Item[place, news]{After: page.Next, What: news{ended: ended}})
	}
	return page, err
}

// heardOf returns the entries of a page, and how the execution has ended, if the page says so.
func heardOf(page follow.Page[place, news]) (all []turn.Heard, ended *turn.Reply) {
	for _, i := range page.Items {
		if i.What.ended != nil {
			return all, i.What.ended
		}
		all = append(all, i.What.Heard)
	}
	return all, nil
}

// Follow reports to a listener what happens in an execution after a position. It returns when the
// execution has ended or waits, the time of a response is over, or the process drains. Pieces of text
// arrive grouped as they were stored. The error is that of the first read, before the listener is called.
func (x *Executions) Follow(ctx context.Context, ws db.Workspace, id string, after turn.Position, l Listener) error {
	sitting := x.streams.Sit()
	defer sitting.End()
	events, after, ended, err := x.runner.Events(ctx, ws, id, after)
	if err != nil {
		return err
	}
	if !l.Begin() {
		return nil
	}
	var f *follow.Follower[followed, place, news]
	leave := sync.OnceFunc(func() {})
	defer func() { leave() }()
	for {
		for _, e := range events {
			l.Event(e)
		}
		if ended != nil {
			l.Done(*ended)
			return nil
		}
		if len(events) > 0 {
			sitting.Spoke()
		}
		if f == nil {
			joined := x.hub.Follow(ctx, followed{ws, id}, place{seq: after.Seq})
			f, leave = joined, sync.OnceFunc(func() { joined.Leave(ctx) })
		}
		quiet, on := sitting.Wait(ctx, f.News())
		if !on {
			return nil
		}
		if quiet {
			l.Still()
		}
		page, err := f.Next()
		var all []turn.Heard
		all, ended = heardOf(page)
		if errors.Is(err, follow.ErrMissed) { // this follower reads the journal itself
			leave()
			f = nil
			all, ended, err = x.runner.Since(ctx, ws, id, after.Seq)
		}
		if err != nil {
			return nil //nolint:nilerr // a client that reconnects with the last id loses nothing
		}
		events, after = turn.Tell(after, all, ended)
	}
}
