// Package telling tells those who listen what happens in a turn, from its journal, and gives a turn a
// context in which it stays when who asked leaves. It speaks no protocol: a [Listener] does.
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

// Longest is how long a turn may take here; then it goes on by itself.
const Longest = 9 * time.Minute

// lookTime is how long one look may take.
const lookTime = 10 * time.Second

// Outlasting is a context for a turn that stays when the caller leaves. It ends with the
// process, when drain is closed, or when the invocation does.
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

// Listener is told what happens in an execution. Nobody else calls it meanwhile.
type Listener interface {
	Begin() (on bool) // comes first; false: nothing more is to be told
	Event(e turn.Event)
	Still() // nothing has happened for a while
	Done(r turn.Reply)
}

// Executions are those that are followed in this process. All who follow one share a reader, once
// they have caught up. It must be made by [New].
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

// place is a place in what is heard of an execution: behind an entry of its journal, or
// behind that and the word how it stands.
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

// news is what a journal says, or how its execution stands.
type news struct {
	turn.Heard
	ended *turn.Reply
}

// look reads for all who follow an execution.
func (x *Executions) look(ctx context.Context, of followed, after place) (page follow.Page[place, news], err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	all, ended, err := x.runner.Since(ctx, of.ws, of.id, after.seq)
	page.Next = after
	for _, h := range all {
		page.Next = place{seq: h.Seq}
		page.Items = append(page.Items, follow.Item[place, news]{Behind: page.Next, What: news{Heard: h}})
	}
	if ended != nil {
		page.Next.over, page.End = true, true
		page.Items = append(page.Items, follow.Item[place, news]{Behind: page.Next, What: news{ended: ended}})
	}
	return page, err
}

// heardOf are the news of a page.
func heardOf(page follow.Page[place, news]) (all []turn.Heard, ended *turn.Reply) {
	for _, i := range page.Items {
		if i.What.ended != nil {
			return all, i.What.ended
		}
		all = append(all, i.What.Heard)
	}
	return all, nil
}

// Follow tells a listener what happens in an execution behind a position, until it has ended or
// waits, the time of an answer is over, or the process drains. Pieces of text come together as they
// were written down. The error is that of the first look, before anything is told.
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
		if errors.Is(err, follow.ErrMissed) { // it looks for itself
			leave()
			f = nil
			all, ended, err = x.runner.Since(ctx, ws, id, after.Seq)
		}
		if err != nil {
			return nil //nolint:nilerr // whoever comes back with the last id loses nothing
		}
		events, after = turn.Tell(after, all, ended)
	}
}
