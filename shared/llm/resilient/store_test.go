package resilient_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
)

var key = resilient.Key{Provider: "bedrock", Model: "large"}

func newStore(t testing.TB, d *db.DB) *resilient.Store {
	t.Helper()
	s, err := resilient.NewStore(d, resilient.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shelf is a store with its own workspace.
type shelf struct {
	dbtest.Env
	*resilient.Store
}

func onEachStore(t *testing.T, fn func(t *testing.T, s shelf)) {
	t.Helper()
	onEach(t, func(t *testing.T, e dbtest.Env) { fn(t, shelf{e, newStore(t, e.DB)}) })
}

func (s shelf) look(t testing.TB) resilient.Circuit {
	t.Helper()
	got, err := s.Load(t.Context(), s.Workspace, []resilient.Key{key})
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	return got[0]
}

// reset resets the circuit as a person does.
func (s shelf) reset(t testing.TB) error {
	t.Helper()
	return s.DB.Tx(t.Context(), s.Workspace, func(ctx context.Context, tx *db.Tx) error {
		return s.Reset(ctx, tx, resilient.ParseKey(key.String()))
	})
}

// fails reports failures and returns the last result.
func (s shelf) fails(t testing.TB, n int, class llm.ErrorClass, wait time.Duration) (c resilient.Circuit) {
	t.Helper()
	for range n {
		var err error
		if c, err = s.Failed(t.Context(), s.Workspace, key, class, wait); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (s shelf) claims(t testing.TB) bool {
	t.Helper()
	ok, err := s.Claim(t.Context(), s.Workspace, key, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func (s shelf) succeeds(t testing.TB) {
	t.Helper()
	if err := s.Succeeded(t.Context(), s.Workspace, key, nil); err != nil {
		t.Fatal(err)
	}
}

// about reports whether d is want, minus at most the duration of a test.
func about(d, want time.Duration) bool { return d <= want && d > want-10*time.Second }

func TestACircuitOfWhichNothingIsKnown(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		if c := s.look(t); c != (resilient.Circuit{Key: key, State: resilient.Closed}) {
			t.Errorf("it is %+v", c)
		}
		s.succeeds(t)
		if s.claims(t) {
			t.Error("it can be probed")
		}
		if all, err := s.List(t.Context(), s.Workspace, 10); err != nil || len(all) != 0 {
			t.Errorf("it is kept: %v, %v", all, err)
		}
	})
}

func TestFiveFailuresInARowOpenIt(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		if c := s.fails(t, 4, llm.ClassOverloaded, 0); c.State != resilient.Closed || c.Failures != 4 || c.RetryAt != nil {
			t.Errorf("after 4: %+v", c)
		}
		s.succeeds(t)
		s.fails(t, 4, llm.ClassOverloaded, 0)
		c := s.fails(t, 1, llm.ClassUnavailable, 0)
		if c.State != resilient.Open || c.Failures != 5 || c.Class != llm.ClassUnavailable || !about(c.RetryIn, 30*time.Second) || c.OpenedAt == nil {
			t.Errorf("after 5: %+v", c)
		}
		// Late failures of calls that began before do not prolong it.
		if late := s.fails(t, 3, llm.ClassTimeout, 0); late.State != resilient.Open || !late.RetryAt.Equal(*c.RetryAt) {
			t.Errorf("after 8: %+v", late)
		}
	})
}

func TestFailuresFarApartAreNotInARow(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		s.fails(t, 4, llm.ClassTimeout, 0)
		s.Skew.Advance(4 * time.Minute)
		if c := s.fails(t, 1, llm.ClassTimeout, 0); c.State != resilient.Open {
			t.Errorf("4 minutes apart: %+v", c)
		}
		s.succeeds(t)
		s.fails(t, 4, llm.ClassTimeout, 0)
		s.Skew.Advance(5*time.Minute + time.Second)
		if c := s.fails(t, 1, llm.ClassTimeout, 0); c.State != resilient.Closed || c.Failures != 1 {
			t.Errorf("5 minutes apart: %+v", c)
		}
	})
}

func TestTheCooldownDoubles(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		c := s.fails(t, 5, llm.ClassUnavailable, 0)
		for _, seconds := range []int{30, 60, 120, 240, 480, 600, 600} {
			want := time.Duration(seconds) * time.Second
			if c.State != resilient.Open || !about(c.RetryIn, want) {
				t.Fatalf("want %s: %+v", want, c)
			}
			s.Skew.Advance(want - 11*time.Second)
			if s.claims(t) {
				t.Fatalf("probed %s too early", 11*time.Second)
			}
			s.Skew.Advance(12 * time.Second)
			if !s.claims(t) {
				t.Fatalf("can't be probed after %s", want)
			}
			c = s.fails(t, 1, llm.ClassUnavailable, 0)
		}
		s.succeeds(t)
		if c = s.fails(t, 5, llm.ClassUnavailable, 0); !about(c.RetryIn, 30*time.Second) {
			t.Errorf("after a success: %+v", c)
		}
	})
}

// A longer wait that the provider asks for is used, within the limit.
func TestTheCooldownIsAtLeastWhatWasAskedFor(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{
		0: 30 * time.Second, 10 * time.Second: 30 * time.Second, 2 * time.Minute: 2 * time.Minute, 24 * time.Hour: 10 * time.Minute,
	} {
		onEachStore(t, func(t *testing.T, s shelf) {
			if c := s.fails(t, 5, llm.ClassOverloaded, wait); !about(c.RetryIn, want) {
				t.Errorf("asked for %s: %+v", wait, c)
			}
		})
	}
}

func TestAKeyThatIsRefusedPausesIt(t *testing.T) {
	for _, class := range lasting {
		onEachStore(t, func(t *testing.T, s shelf) {
			c := s.fails(t, 1, class, 0)
			if c.State != resilient.Paused || c.Class != class || !about(c.RetryIn, time.Hour) {
				t.Errorf("it is %+v", c)
			}
			// Late failures of other calls change nothing.
			s.Skew.Advance(20 * time.Second)
			s.fails(t, 9, llm.ClassUnavailable, 0)
			if late := s.fails(t, 1, class, 0); late.State != resilient.Paused || late.Class != class || !late.RetryAt.Equal(*c.RetryAt) {
				t.Errorf("it is %+v", late)
			}
			s.Skew.Advance(time.Hour)
			if !s.claims(t) {
				t.Fatal("it can't be probed after an hour")
			}
			if c := s.fails(t, 1, class, 0); c.State != resilient.Paused || !about(c.RetryIn, time.Hour) {
				t.Errorf("after a probe it is %+v", c)
			}
			if err := s.reset(t); err != nil || s.look(t).State != resilient.Closed {
				t.Errorf("reset: %v", err)
			}
			if all, err := s.List(t.Context(), s.Workspace, 10); err != nil || len(all) != 0 {
				t.Errorf("it is still listed: %+v, %v", all, err)
			}
			if err := s.reset(t); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("reset again: %v", err)
			}
		})
	}
}

// Of many concurrent callers in several processes, one probes.
func TestOneProbes(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		s.fails(t, 5, llm.ClassUnavailable, 0)
		var others []*resilient.Store
		for range 4 {
			d, skew := s.Open(t, 2)
			skew.Advance(time.Minute)
			others = append(others, newStore(t, d))
		}
		for range 5 {
			var won atomic.Int32
			var wg sync.WaitGroup
			start := make(chan struct{})
			for i := range 12 {
				wg.Go(func() {
					<-start
					ok, err := others[i%len(others)].Claim(t.Context(), s.Workspace, key, time.Minute)
					if err != nil {
						t.Error(err)
					}
					if ok {
						won.Add(1)
					}
				})
			}
			close(start)
			wg.Wait()
			if won.Load() != 1 {
				t.Errorf("%d probe at the same time", won.Load())
			}
			if err := s.GiveBack(t.Context(), s.Workspace, key); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestALostProbeIsMadeAgain(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		s.fails(t, 5, llm.ClassUnavailable, 0)
		s.Skew.Advance(31 * time.Second)
		if !s.claims(t) || s.claims(t) {
			t.Error("not one probe")
		}
		s.Skew.Advance(50 * time.Second)
		if s.claims(t) {
			t.Error("it is taken away within its lease")
		}
		s.Skew.Advance(11 * time.Second)
		if !s.claims(t) {
			t.Error("it is lost for ever")
		}
	})
}

func TestAProbeThatIsGivenBackIsMadeAgain(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		for class, want := range map[llm.ErrorClass]resilient.State{llm.ClassUnavailable: resilient.Open, llm.ClassBilling: resilient.Paused} {
			s.fails(t, 5, class, 0)
			if err := s.GiveBack(t.Context(), s.Workspace, key); err != nil || s.look(t).State != want || s.look(t).RetryIn < 10*time.Second {
				t.Errorf("what was not claimed: %+v, %v", s.look(t), err)
			}
			s.Skew.Advance(2 * time.Hour)
			s.claims(t)
			if err := s.GiveBack(t.Context(), s.Workspace, key); err != nil || s.look(t).State != want || !s.claims(t) {
				t.Errorf("given back: %+v, %v", s.look(t), err)
			}
			s.succeeds(t)
		}
	})
}

// Any event in any state causes only an allowed transition.
func TestTransitions(t *testing.T) {
	reach := map[resilient.State]func(t *testing.T, s shelf){
		resilient.Closed: func(*testing.T, shelf) {},
		resilient.Open:   func(t *testing.T, s shelf) { s.fails(t, 5, llm.ClassTimeout, 0) },
		resilient.HalfOpen: func(t *testing.T, s shelf) {
			s.fails(t, 5, llm.ClassTimeout, 0)
			s.Skew.Advance(time.Hour)
			s.claims(t)
		},
		resilient.Paused: func(t *testing.T, s shelf) { s.fails(t, 1, llm.ClassBilling, 0) },
	}
	events := map[string]struct {
		happens func(t *testing.T, s shelf)
		to      map[resilient.State]resilient.State // where it changes the state
	}{
		"a failure": {func(t *testing.T, s shelf) { s.fails(t, 1, llm.ClassOverloaded, 0) },
			map[resilient.State]resilient.State{resilient.HalfOpen: resilient.Open}},
		"failures": {func(t *testing.T, s shelf) { s.fails(t, 5, llm.ClassOverloaded, 0) },
			map[resilient.State]resilient.State{resilient.HalfOpen: resilient.Open, resilient.Closed: resilient.Open}},
		"a refused key": {func(t *testing.T, s shelf) { s.fails(t, 1, llm.ClassAuthentication, 0) },
			map[resilient.State]resilient.State{resilient.Closed: resilient.Paused, resilient.Open: resilient.Paused, resilient.HalfOpen: resilient.Paused}},
		"a success": {func(t *testing.T, s shelf) { s.succeeds(t) },
			map[resilient.State]resilient.State{resilient.Open: resilient.Closed, resilient.HalfOpen: resilient.Closed, resilient.Paused: resilient.Closed}},
		"a probe, early": {func(t *testing.T, s shelf) { s.claims(t) }, nil},
		"a probe, late": {func(t *testing.T, s shelf) { s.Skew.Advance(2 * time.Hour); s.claims(t) },
			map[resilient.State]resilient.State{resilient.Open: resilient.HalfOpen, resilient.Paused: resilient.HalfOpen}},
		"a probe given back": {func(t *testing.T, s shelf) {
			if err := s.GiveBack(t.Context(), s.Workspace, key); err != nil {
				t.Error(err)
			}
		}, map[resilient.State]resilient.State{resilient.HalfOpen: resilient.Open}},
	}
	onEachStore(t, func(t *testing.T, s shelf) {
		for from, get := range reach {
			for name, event := range events {
				s.Workspace = dbtest.NewWorkspace(t, s.DB)
				get(t, s)
				if c := s.look(t); c.State != from {
					t.Fatalf("%s is not reached: %+v", from, c)
				}
				event.happens(t, s)
				got, want := s.look(t).State, event.to[from]
				if want == "" {
					want = from
				}
				if got != want || got != from && !from.Can(got) {
					t.Errorf("%s: from %s to %s, want %s", name, from, got, want)
				}
			}
		}
	})
}

func TestCircuitsOfOthersAreNotTouched(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		s.fails(t, 5, llm.ClassUnavailable, 0)
		other := s
		other.Workspace = dbtest.NewWorkspace(t, s.DB)
		other.fails(t, 1, llm.ClassBilling, 0)
		small, elsewhere := resilient.Key{Provider: "bedrock", Model: "small"}, resilient.Key{Provider: "openai", Model: "large"}
		got, err := s.Load(t.Context(), s.Workspace, []resilient.Key{small, key, elsewhere})
		if err != nil || len(got) != 3 || got[0].State != resilient.Closed || got[1].State != resilient.Open || got[2].State != resilient.Closed {
			t.Errorf("got %+v, %v", got, err)
		}
		for _, k := range []resilient.Key{small, elsewhere} {
			if _, err := s.Failed(t.Context(), s.Workspace, k, llm.ClassBilling, 0); err != nil {
				t.Fatal(err)
			}
		}
		all, err := s.List(t.Context(), s.Workspace, 10)
		if err != nil || len(all) != 3 || all[0].Key != key || all[0].State != resilient.Open || all[1].Key != small || all[2].Key != elsewhere {
			t.Errorf("all are %+v, %v", all, err)
		}
		if some, err := s.List(t.Context(), s.Workspace, 2); err != nil || len(some) != 2 {
			t.Errorf("two are %+v, %v", some, err)
		}
	})
}

func TestWhatCannotBeStored(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		for name, k := range map[string]resilient.Key{
			"no provider": {}, "a long provider": {Provider: strings.Repeat("p", 65)}, "a long model": {Provider: "p", Model: strings.Repeat("m", 513)},
			"the character NUL": {Provider: "p", Model: "a\x00b"},
		} {
			if _, err := s.Failed(t.Context(), s.Workspace, k, llm.ClassTimeout, 0); !errors.Is(err, db.ErrCheck) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Each operation costs one round trip. Reading several circuits costs no more.
func TestCosts(t *testing.T) {
	onEachStore(t, func(t *testing.T, s shelf) {
		for name, do := range map[string]func() error{
			"load": func() error {
				_, err := s.Load(t.Context(), s.Workspace, slices.Repeat([]resilient.Key{key}, 3))
				return err
			},
			"fail": func() error {
				_, err := s.Failed(t.Context(), s.Workspace, key, llm.ClassTimeout, 0)
				return err
			},
			"succeed": func() error { return s.Succeeded(t.Context(), s.Workspace, key, nil) },
		} {
			before := s.DB.Stats()
			if err := do(); err != nil {
				t.Fatal(err)
			}
			if n := s.DB.Stats().Sub(before).RoundTrips; n != 1 {
				t.Errorf("%s: %d round trips", name, n)
			}
		}
	})
}
