package follow_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/follow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	hub      = follow.Hub[string, int, int]
	follower = follow.Follower[string, int, int]
	page     = follow.Page[int, int]
)

const every = time.Second

// source counts up: item n is at position n.
type source struct {
	mu     sync.Mutex
	last   int
	end    bool
	fails  error
	panics bool
	hangs  chan struct{} // polls wait until it is closed
	looks  int
	most   int // items of a page
}

// set changes the source between two polls.
func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *source) happen(n int) { s.set(func() { s.last += n }) }

func (s *source) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

func (s *source) look(ctx context.Context, _ string, after int) (page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if s.hangs != nil {
		select {
		case <-s.hangs:
		case <-ctx.Done():
			return page{}, ctx.Err()
		}
	}
	if s.panics {
		panic("no such table")
	}
	return s.behind(after), s.fails
}

func (s *source) behind(after int) page {
	p := page{Next: after}
	for p.Next < s.last && len(p.Items) < cmp.Or(s.most, 100) {
		p.Next++
		p.Items = append(p.Items, follow.Item[int, int]{After: p.Next, What: p.Next})
	}
	p.More, p.End = p.Next < s.last, s.end && p.Next == s.last
	return p
}

func (s *source) hub() *hub {
	return &hub{Look: s.look, Compare: cmp.Compare[int], Ticks: func() (<-chan time.Time, func()) {
		t := time.NewTicker(every)
		return t.C, t.Stop
	}}
}

// take waits for news and returns them.
func take(t testing.TB, f *follower) []int {
	t.Helper()
	<-f.News()
	got, err := whats(f)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func whats(f *follower) (all []int, err error) {
	p, err := f.Next()
	for _, i := range p.Items {
		all = append(all, i.What)
	}
	return all, err
}

func quiet(f *follower) bool {
	synctest.Wait()
	select {
	case <-f.News():
		return false
	default:
		return true
	}
}

func TestLooksAreConstantInFollowers(t *testing.T) {
	for _, n := range []int{1, 2, 200} {
		synctest.Test(t, func(t *testing.T) {
			s := &source{}
			h := s.hub()
			var all []*follower
			for range n {
				all = append(all, h.Follow(t.Context(), "x", 0))
			}
			for i := range 10 {
				s.happen(1)
				for _, f := range all {
					if got := take(t, f); !slices.Equal(got, []int{i + 1}) {
						t.Fatalf("got %v, want %d", got, i+1)
					}
				}
			}
			if got := s.looked(); got != 10 {
				t.Errorf("%d followers: %d looks in 10 ticks", n, got)
			}
			for _, f := range all {
				f.Leave(t.Context())
			}
		})
	}
}

func TestEachSourceHasItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		h := s.hub()
		a, b := h.Follow(t.Context(), "a", 0), h.Follow(t.Context(), "b", 0)
		s.happen(1)
		take(t, a)
		take(t, b)
		if got := s.looked(); got != 2 {
			t.Errorf("%d looks", got)
		}
		a.Leave(t.Context())
		b.Leave(t.Context())
	})
}

func TestWhoComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		h := s.hub()
		h.Keep = 3
		first := h.Follow(t.Context(), "x", 0)
		s.happen(2)
		take(t, first)
		s.happen(3)
		take(t, first)
		for at, want := range map[int][]int{2: {3, 4, 5}, 4: {5}} {
			f := h.Follow(t.Context(), "x", at)
			if got := take(t, f); !slices.Equal(got, want) {
				t.Errorf("behind %d: %v", at, got)
			}
			f.Leave(t.Context())
		}
		for _, at := range []int{5, 9} { // as if their last own read was later than the reader's
			f := h.Follow(t.Context(), "x", at)
			if !quiet(f) {
				t.Errorf("there is news behind %d", at)
			}
			if p, err := f.Next(); p.Next != at || len(p.Items) > 0 || err != nil {
				t.Errorf("behind %d: %+v, %v", at, p, err)
			}
			f.Leave(t.Context())
		}
		older := h.Follow(t.Context(), "x", 1)
		<-older.News()
		if p, err := older.Next(); !errors.Is(err, follow.ErrMissed) || p.Next != 1 {
			t.Errorf("behind what is not kept: %+v, %v", p, err)
		}
		older.Leave(t.Context())
		first.Leave(t.Context())
	})
}

func TestNobodyWaitsForASlowFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		h := s.hub()
		h.Keep = 3
		slow, quick := h.Follow(t.Context(), "x", 0), h.Follow(t.Context(), "x", 0)
		for i := range 5 {
			s.happen(1)
			if got := take(t, quick); !slices.Equal(got, []int{i + 1}) {
				t.Fatalf("the quick one has %v", got)
			}
		}
		<-slow.News()
		if got, err := whats(slow); !errors.Is(err, follow.ErrMissed) {
			t.Errorf("the slow one has %v, %v", got, err)
		}
		slow.Leave(t.Context())
		quick.Leave(t.Context())
	})
}

func TestMoreIsReadWithoutATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{most: 2}
		h := s.hub()
		f := h.Follow(t.Context(), "x", 0)
		s.happen(5)
		begun := time.Now()
		var got []int
		for len(got) < 5 {
			got = append(got, take(t, f)...)
		}
		if took := time.Since(begun); took != every || s.looked() != 3 {
			t.Errorf("%d looks in %s", s.looked(), took)
		}
		f.Leave(t.Context())
	})
}

func TestTheLastWhoLeavesEndsTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		h := s.hub()
		a, b := h.Follow(t.Context(), "x", 0), h.Follow(t.Context(), "x", 0)
		a.Leave(t.Context())
		s.happen(1)
		take(t, b)
		b.Leave(t.Context())
		time.Sleep(10 * every)
		if got := s.looked(); got != 1 {
			t.Errorf("%d looks, of which 1 was for somebody", got)
		}
		c := h.Follow(t.Context(), "x", 1)
		s.happen(1)
		if got := take(t, c); !slices.Equal(got, []int{2}) {
			t.Errorf("who comes then has %v", got)
		}
		c.Leave(t.Context())
	})
}

func TestALookThatHangs(t *testing.T) {
	t.Run("is waited for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &source{hangs: make(chan struct{})}
			h := s.hub()
			f := h.Follow(t.Context(), "x", 0)
			time.Sleep(every)
			synctest.Wait()
			left := make(chan struct{})
			go func() { f.Leave(t.Context()); close(left) }()
			synctest.Wait()
			select {
			case <-left:
				t.Error("it left before the look had ended")
			default:
			}
			close(s.hangs)
			<-left
		})
	})
	t.Run("is cancelled with the last", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &source{hangs: make(chan struct{})}
			h := s.hub()
			ctx, cancel := context.WithCancel(t.Context())
			f := h.Follow(ctx, "x", 0)
			time.Sleep(every)
			cancel()
			f.Leave(ctx)
		})
	})
}

// TestTheFirstMayLeave: the follower that started the reader leaves. Its context does not cancel
// the polls for the others.
func TestTheFirstMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		h := s.hub()
		ctx, cancel := context.WithCancel(t.Context())
		first, other := h.Follow(ctx, "x", 0), h.Follow(t.Context(), "x", 0)
		cancel()
		first.Leave(ctx)
		s.happen(1)
		if got := take(t, other); !slices.Equal(got, []int{1}) {
			t.Errorf("the other has %v", got)
		}
		other.Leave(t.Context())
	})
}

func TestAnErrorReachesAll(t *testing.T) {
	down := errors.New("the database is away")
	for name, fail := range map[string]func(*source){
		"error": func(s *source) { s.fails = down },
		"panic": func(s *source) { s.panics = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{}
				h := s.hub()
				a, b := h.Follow(t.Context(), "x", 0), h.Follow(t.Context(), "x", 0)
				s.happen(1)
				take(t, a) // b has not read it
				s.set(func() { fail(s) })
				<-a.News()
				_, err := a.Next()
				if !errors.Is(err, down) && (err == nil || !strings.Contains(err.Error(), "no such table")) {
					t.Errorf("one is told %v", err)
				}
				if got := take(t, b); !slices.Equal(got, []int{1}) {
					t.Errorf("the other has %v before", got)
				}
				if _, again := b.Next(); !errors.Is(again, err) {
					t.Errorf("the other is told %v", again)
				}
				s.set(func() { s.fails, s.panics = nil, false })
				c := h.Follow(t.Context(), "x", 1)
				s.happen(1)
				if got := take(t, c); !slices.Equal(got, []int{2}) {
					t.Errorf("who comes then has %v", got)
				}
				for _, f := range []*follower{a, b, c} {
					f.Leave(t.Context())
				}
			})
		})
	}
}

func TestTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		h := s.hub()
		a, ahead := h.Follow(t.Context(), "x", 0), h.Follow(t.Context(), "x", 2)
		s.set(func() { s.last, s.end = 1, true })
		if got := take(t, a); !slices.Equal(got, []int{1}) {
			t.Errorf("it has %v", got)
		}
		for _, f := range []*follower{a, ahead} { // a follower that is ahead of the reader's end reads the source itself
			<-f.News()
			if got, err := whats(f); !errors.Is(err, follow.ErrMissed) || len(got) > 0 {
				t.Errorf("behind the end: %v, %v", got, err)
			}
		}
		time.Sleep(10 * every)
		if got := s.looked(); got != 1 {
			t.Errorf("%d looks, of which %d were behind the end", got, got-1)
		}
		a.Leave(t.Context())
		ahead.Leave(t.Context())
	})
}

// TestEachSeesEverythingOnce: followers come, are slow, leave, and come back while items arrive.
// Each sees all items once and in order.
func TestEachSeesEverythingOnce(t *testing.T) {
	const items, followers = 300, 20
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		s := &source{most: 7}
		h := s.hub()
		h.Keep = 10
		var all sync.WaitGroup
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			for left := items; left > 0; {
				n := min(left, 1+r.IntN(5))
				s.happen(n)
				left -= n
				time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
			}
		})
		for n := range followers {
			all.Go(func() {
				r := rand.New(rand.NewPCG(seed, 1+uint64(n)))
				var got []int
				at, f := 0, (*follower)(nil)
				leave := func() {
					if f != nil {
						f.Leave(t.Context())
					}
					f = nil
				}
				for len(got) < items {
					if r.IntN(10) == 0 {
						leave()
					}
					if r.IntN(10) == 0 {
						time.Sleep(time.Duration(r.IntN(20)) * every)
					}
					var p page
					var err error
					if f == nil {
						p, err = s.look(t.Context(), "x", at)
						if !p.More {
							f = h.Follow(t.Context(), "x", p.Next)
						}
					} else {
						<-f.News()
						if p, err = f.Next(); errors.Is(err, follow.ErrMissed) {
							leave()
							continue
						}
					}
					if err != nil {
						t.Error(err)
						return
					}
					for _, i := range p.Items {
						got = append(got, i.What)
					}
					at = p.Next
				}
				leave()
				for i, what := range got {
					if what != i+1 {
						t.Errorf("follower %d has %v", n, got)
						return
					}
				}
			})
		}
		all.Wait()
	})
}
