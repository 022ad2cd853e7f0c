// Package follow has one reader look for news on behalf of all who follow the same
// source in this process: two hundred open pages cost the database what one costs.
//
// A [Hub] has a reader for each source that is followed. A follower first looks for
// itself until it has caught up, and then joins the reader at its position. The reader
// looks once a tick, keeps the newest items, and waits for no follower: one that is too
// slow gets [ErrMissed], looks for itself, and joins anew. The last follower that leaves
// ends the reader and waits for its end, so that nothing works on behind an answer. An
// error or a panic of a look reaches all followers and ends the reader; the next
// follower starts another.
package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An Item is one piece of news; Behind is the position behind it. A source orders its
// items by that position, and never adds one before a position that it has answered.
type Item[P, T any] struct {
	Behind P
	What   T
}

// A Page is what stands behind a position.
type Page[P, T any] struct {
	Items []Item[P, T]
	Next  P    // to go on from
	More  bool // there is more behind Next by now
	End   bool // nothing comes behind Next any more
}

// ErrMissed says that the reader does not have what stands behind a follower's position:
// the follower looks for itself and follows anew.
var ErrMissed = errors.New("the shared reader does not have what stands behind the position")

// A Hub shares one reader for each source among its followers. Its fields are set
// before it is used; it is safe for concurrent use and must not be copied.
type Hub[K comparable, P, T any] struct {
	// Look reads what stands behind a position of a source. It bounds its own time.
	Look func(ctx context.Context, of K, after P) (Page[P, T], error)
	// Compare orders positions: negative where a stands before b.
	Compare func(a, b P) int
	// Ticks says when a reader looks; what it returns second ends the ticks.
	Ticks func() (<-chan time.Time, func())
	// Keep is how many items a reader keeps for its followers; zero: 1,000.
	Keep int

	mu      sync.Mutex // guards what follows, and all readers
	readers map[K]*reader[K, P, T]
}

const defaultKeep = 1000

// reader looks for all followers of one source.
type reader[K comparable, P, T any] struct {
	of        K
	from, to  P            // items has all that stands between them
	items     []Item[P, T] // in order
	over      error        // why it looks no more
	news      chan struct{}
	followers int
	stop      chan struct{} // closed by the last follower that leaves
	cancel    context.CancelFunc
	ended     chan struct{}
}

// A Follower is one who follows a source. It is not safe for concurrent use.
type Follower[K comparable, P, T any] struct {
	hub *Hub[K, P, T]
	r   *reader[K, P, T]
	at  P
}

// Follow joins the reader of a source behind a position at which the follower has caught
// up, or starts one there. The reader's looks have the values of the first follower's
// context and do not end with it.
func (h *Hub[K, P, T]) Follow(ctx context.Context, of K, at P) *Follower[K, P, T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.readers[of]
	if r == nil {
		r = &reader[K, P, T]{of: of, from: at, to: at, news: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{})}
		ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
		if h.readers == nil {
			h.readers = map[K]*reader[K, P, T]{}
		}
		h.readers[of] = r
		go h.read(ctx, r)
	}
	r.followers++
	return &Follower[K, P, T]{h, r, at}
}

// News is ready once Next has something to say.
func (f *Follower[K, P, T]) News() <-chan struct{} {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if f.r.over != nil || f.missed() || len(f.unread()) > 0 {
		ready := make(chan struct{})
		close(ready)
		return ready
	}
	return f.r.news
}

// Next answers at once what stands behind the follower's position, and moves it. Behind
// the last of it is the error that has ended the reader. [ErrMissed] says that the reader
// has not kept it, or has ended before the follower's position.
func (f *Follower[K, P, T]) Next() (Page[P, T], error) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if f.missed() {
		return Page[P, T]{Next: f.at}, ErrMissed
	}
	items := f.unread()
	if f.r.over != nil && len(items) == 0 {
		return Page[P, T]{Next: f.at}, f.r.over
	}
	if f.hub.Compare(f.at, f.r.to) < 0 {
		f.at = f.r.to
	}
	return Page[P, T]{Items: items, Next: f.at}, nil
}

func (f *Follower[K, P, T]) missed() bool { return f.hub.Compare(f.at, f.r.from) < 0 }

// unread are the items that the follower does not have. They are not changed any more.
func (f *Follower[K, P, T]) unread() []Item[P, T] {
	n := len(f.r.items)
	for n > 0 && f.hub.Compare(f.r.items[n-1].Behind, f.at) > 0 {
		n--
	}
	return slices.Clip(f.r.items[n:])
}

// Leave ends the following. The last follower waits until the reader has ended: for a
// look that is under way, unless the context has ended, which cancels it.
func (f *Follower[K, P, T]) Leave(ctx context.Context) {
	h, r := f.hub, f.r
	h.mu.Lock()
	r.followers--
	last := r.followers == 0
	if last {
		close(r.stop)
		h.forget(r)
	}
	h.mu.Unlock()
	if !last {
		return
	}
	select {
	case <-r.ended:
	case <-ctx.Done():
		r.cancel()
		<-r.ended
	}
}

// forget has the next follower start another reader.
func (h *Hub[K, P, T]) forget(r *reader[K, P, T]) {
	if h.readers[r.of] == r {
		delete(h.readers, r.of)
	}
}

// read looks at each tick until it is stopped, or fails, or comes to the end.
func (h *Hub[K, P, T]) read(ctx context.Context, r *reader[K, P, T]) {
	defer close(r.ended)
	defer r.cancel()
	ticks, stop := h.Ticks()
	defer stop()
	more := make(chan time.Time)
	close(more)
	next := ticks
	for at := r.to; ; {
		select {
		case <-r.stop:
			return
		case <-next:
		}
		page, err := h.look(ctx, r.of, at)
		at, next = page.Next, ticks
		if page.More {
			next = more
		}
		if h.publish(r, page, err) {
			return
		}
	}
}

// look makes an error of a panic, which would end the process here.
func (h *Hub[K, P, T]) look(ctx context.Context, of K, after P) (page Page[P, T], err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = fmt.Errorf("look for news: panic: %v", thrown)
		}
	}()
	return h.Look(ctx, of, after)
}

// publish hands the outcome of a look to the followers, and reports whether it was the
// last.
func (h *Hub[K, P, T]) publish(r *reader[K, P, T], page Page[P, T], err error) (over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		r.items = append(r.items, page.Items...)
		r.to = page.Next
		if n := len(r.items) - cmp.Or(h.Keep, defaultKeep); n > 0 {
			r.from = r.items[n-1].Behind
			r.items = slices.Clone(r.items[n:])
		}
	}
	r.over = err
	if err == nil && page.End {
		r.over = ErrMissed
	}
	if r.over != nil {
		h.forget(r)
	}
	if r.over != nil || len(page.Items) > 0 {
		close(r.news)
		r.news = make(chan struct{})
	}
	return r.over != nil
}
