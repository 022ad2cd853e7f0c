// Package follow polls a source once for all its followers in this process: two hundred open pages
// cost the database as much as one page.
//
// A [Hub] has a reader for each followed source. A follower first reads the source itself until it
// has caught up. Then it joins the reader at its position. The reader polls once a tick, keeps the
// newest items, and does not wait for followers. A follower that is too slow gets [ErrMissed],
// reads the source itself, and joins again. The last follower that leaves stops the reader and
// waits for its end, so that nothing runs after the follower's request has ended. An error or a
// panic of a poll reaches all followers and ends the reader; the next follower starts a new one.
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

// An Item is one piece of news. After is the position after it. A source orders its items by that
// position, and never adds an item before a position that it has returned.
type Item[P, T any] struct {
	After P
	What  T
}

// A Page is a list of the items after a position.
type Page[P, T any] struct {
	Items []Item[P, T]
	Next  P    // the position to continue from
	More  bool // there are more items after Next already
	End   bool // no items will come after Next
}

// ErrMissed means that the reader no longer has the items after a follower's position. The follower
// must read the source itself and follow again.
var ErrMissed = errors.New("the shared reader does not have the items after the position")

// A Hub shares one reader for each source among its followers. Set its fields before the first use.
// It is safe for concurrent use and must not be copied.
type Hub[K comparable, P, T any] struct {
	// Look reads the items after a position of a source. It must bound its own time.
	Look func(ctx context.Context, of K, after P) (Page[P, T], error)
	// Compare orders positions: it is negative when a is before b.
	Compare func(a, b P) int
	// Ticks returns the ticks at which a reader polls, and a function that stops them.
	Ticks func() (<-chan time.Time, func())
	// Keep is how many items a reader keeps for its followers; 1,000 when zero.
	Keep int

	mu      sync.Mutex // guards the readers and their fields
	readers map[K]*reader[K, P, T]
}

const defaultKeep = 1000

// reader polls one source for all its followers.
type reader[K comparable, P, T any] struct {
	of        K
	from, to  P            // items holds everything between from and to
	items     []Item[P, T] // in order
	over      error        // why the reader has ended
	news      chan struct{}
	followers int
	stop      chan struct{} // closed by the last follower that leaves
	cancel    context.CancelFunc
	ended     chan struct{}
}

// A Follower follows a source. It is not safe for concurrent use.
type Follower[K comparable, P, T any] struct {
	hub *Hub[K, P, T]
	r   *reader[K, P, T]
	at  P
}

// Follow joins the reader of a source at a position to which the follower has caught up, or starts
// a reader there. The reader's polls use the values of the first follower's context, but do not end
// with it.
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

// News returns a channel that is ready when Next has something to return.
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

// Next returns at once the items after the follower's position, and moves the position. After the
// last item it returns the error that ended the reader. It returns [ErrMissed] when the reader no
// longer has the items, or has ended before the follower's position.
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

// unread returns the items that the follower has not read. They are not changed any more.
func (f *Follower[K, P, T]) unread() []Item[P, T] {
	n := len(f.r.items)
	for n > 0 && f.hub.Compare(f.r.items[n-1].After, f.at) > 0 {
		n--
	}
	return slices.Clip(f.r.items[n:])
}

// Leave ends the following. The last follower waits until the reader has ended. It waits for a
// running poll, but cancels it when ctx ends.
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

// forget makes the next follower start a new reader.
func (h *Hub[K, P, T]) forget(r *reader[K, P, T]) {
	if h.readers[r.of] == r {
		delete(h.readers, r.of)
	}
}

// read polls at each tick until it is stopped, fails, or reaches the end.
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

// look turns a panic into an error. In this goroutine a panic would end the process.
func (h *Hub[K, P, T]) look(ctx context.Context, of K, after P) (page Page[P, T], err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = fmt.Errorf("look for news: panic: %v", thrown)
		}
	}()
	return h.Look(ctx, of, after)
}

// publish gives the result of a poll to the followers, and reports whether the reader has ended.
func (h *Hub[K, P, T]) publish(r *reader[K, P, T], page Page[P, T], err error) (over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		r.items = append(r.items, page.Items...)
		r.to = page.Next
		if n := len(r.items) - cmp.Or(h.Keep, defaultKeep); n > 0 {
			r.from = r.items[n-1].After
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
