package livetest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/live"
)

// Ephemeral returns the cases of locks and results.
func Ephemeral() []Case {
	var all []Case
	all = append(all, lockNames()...)
	all = append(all, lockCases()...)
	all = append(all, lockStories()...)
	all = append(all, resultValues()...)
	return append(all, resultCases()...)
}

// client holds one token in the locks of a test.
type client struct {
	t     testing.TB
	w     *World
	ws    db.Workspace
	name  string
	token string
}

func (w *World) client(t testing.TB, name string) *client {
	return &client{t: t, w: w, ws: w.Workspace, name: name, token: newID()}
}

func (c *client) lock() live.Lock { return live.Lock{Name: c.name, Token: c.token} }

func (c *client) tries(ttl time.Duration, want bool) {
	c.t.Helper()
	got, err := c.w.TryLock(c.t.Context(), c.ws, c.lock(), ttl)
	ok(c.t, err)
	if got != want {
		c.t.Fatalf("TryLock %s: %t, want %t", c.name, got, want)
	}
}

func (c *client) releases(want bool) {
	c.t.Helper()
	got, err := c.w.ReleaseLock(c.t.Context(), c.ws, c.lock())
	ok(c.t, err)
	if got != want {
		c.t.Fatalf("ReleaseLock %s: %t, want %t", c.name, got, want)
	}
}

func lockNames() (all []Case) {
	for _, name := range []string{"a", "A-1", "thread:1", "x/y", "a.b", "a_b", "a+b", "user@host", strings.Repeat("n", 195), live.AssignLock(newID())} {
		all = append(all, Case{fmt.Sprintf("lock name %.40s", name), func(t *testing.T, w *World) {
			c := w.client(t, name)
			c.tries(time.Minute, true)
			w.client(t, name).tries(time.Minute, false)
			c.releases(true)
		}})
	}
	for i, name := range []string{"", " ", "a b", "a\x00b", "ä", "a{b}", "a*", strings.Repeat("n", 196)} {
		all = append(all, Case{fmt.Sprintf("lock name refused %d", i), func(t *testing.T, w *World) {
			_, err := w.TryLock(t.Context(), w.Workspace, live.Lock{Name: name, Token: newID()}, time.Second)
			invalid(t, err, "name")
			_, err = w.ReleaseLock(t.Context(), w.Workspace, live.Lock{Name: name, Token: newID()})
			invalid(t, err, "name")
		}})
	}
	for i, token := range []string{"", "me", strings.Repeat("0", 36), "{" + newID() + "}"} {
		all = append(all, Case{fmt.Sprintf("lock token refused %d", i), func(t *testing.T, w *World) {
			_, err := w.TryLock(t.Context(), w.Workspace, live.Lock{Name: "a", Token: token}, time.Second)
			invalid(t, err, "token")
			_, err = w.ReleaseLock(t.Context(), w.Workspace, live.Lock{Name: "a", Token: token})
			invalid(t, err, "token")
		}})
	}
	for _, ttl := range []time.Duration{0, -time.Second, time.Microsecond, time.Hour + time.Millisecond} {
		all = append(all, Case{"lock ttl refused " + ttl.String(), func(t *testing.T, w *World) {
			_, err := w.TryLock(t.Context(), w.Workspace, live.Lock{Name: "ttl", Token: newID()}, ttl)
			invalid(t, err, "ttl")
		}})
	}
	return all
}

func lockCases() []Case {
	return []Case{
		{"a free lock", func(t *testing.T, w *World) { w.client(t, newID()).tries(time.Hour, true) }},
		{"a held lock", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			b := w.client(t, a.name)
			a.tries(time.Minute, true)
			b.tries(time.Minute, false)
			b.tries(time.Minute, false)
			a.releases(true)
		}},
		{"its holder takes it again", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			a.tries(time.Minute, true)
			a.tries(time.Minute, true)
			w.client(t, a.name).tries(time.Minute, false)
		}},
		{"taken again counts from then on", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			b := w.client(t, a.name)
			a.tries(time.Minute, true)
			w.Advance(t, 50*time.Second)
			a.tries(time.Minute, true)
			w.Advance(t, 50*time.Second)
			b.tries(time.Minute, false)
			w.Advance(t, 11*time.Second)
			b.tries(time.Minute, true)
		}},
		{"released, then another's", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			b := w.client(t, a.name)
			a.tries(time.Minute, true)
			a.releases(true)
			b.tries(time.Minute, true)
			a.tries(time.Minute, false)
		}},
		{"released twice", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			a.tries(time.Minute, true)
			a.releases(true)
			a.releases(false)
		}},
		{"released by another", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			b := w.client(t, a.name)
			a.tries(time.Minute, true)
			b.releases(false)
			b.tries(time.Minute, false)
			a.releases(true)
		}},
		{"released though never taken", func(t *testing.T, w *World) { w.client(t, newID()).releases(false) }},
		{"over after its time", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			a.tries(time.Second, true)
			w.Advance(t, 2*time.Second)
			a.releases(false)
			w.client(t, a.name).tries(time.Second, true)
		}},
		{"not over before its time", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			a.tries(time.Hour, true)
			w.Advance(t, 50*time.Minute)
			w.client(t, a.name).tries(time.Hour, false)
			a.releases(true)
		}},
		{"who is late can't release another's", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			b := w.client(t, a.name)
			a.tries(time.Second, true)
			w.Advance(t, 2*time.Second)
			b.tries(time.Minute, true)
			a.releases(false)
			a.tries(time.Minute, false)
			b.releases(true)
		}},
		{"locks of two names", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			b := w.client(t, newID())
			a.tries(time.Minute, true)
			b.tries(time.Minute, true)
			a.releases(true)
			w.client(t, b.name).tries(time.Minute, false)
		}},
		{"locks of two workspaces", func(t *testing.T, w *World) {
			a := w.client(t, newID())
			b := w.client(t, a.name)
			b.ws = w.Other
			a.tries(time.Minute, true)
			b.tries(time.Minute, true)
			b.releases(true)
			w.client(t, a.name).tries(time.Minute, false)
			a.releases(true)
		}},
		{"one winner of sixteen", func(t *testing.T, w *World) {
			name, won := newID(), atomic.Int32{}
			at(t.Context(), 16, func(ctx context.Context, _ int) {
				got, err := w.TryLock(ctx, w.Workspace, live.Lock{Name: name, Token: newID()}, time.Minute)
				if err != nil {
					t.Error(err)
				}
				if got {
					won.Add(1)
				}
			})
			if won.Load() != 1 {
				t.Errorf("%d winners", won.Load())
			}
		}},
	}
}

// lockStories are random stories of three clients of one lock, beside a model of it.
func lockStories() (all []Case) {
	for seed := range uint64(40) {
		all = append(all, Case{fmt.Sprintf("lock story %d", seed), func(t *testing.T, w *World) {
			r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a story, no secret
			name := newID()
			clients := []*client{w.client(t, name), w.client(t, name), w.client(t, name)}
			holder, left := -1, time.Duration(0)
			for range 8 {
				who := r.IntN(len(clients))
				switch r.IntN(5) {
				case 0, 1:
					ttl := time.Duration(1+r.IntN(5)) * 10 * time.Minute
					free := holder < 0 || holder == who
					clients[who].tries(ttl, free)
					if free {
						holder, left = who, ttl
					}
				case 2, 3:
					clients[who].releases(holder == who)
					if holder == who {
						holder = -1
					}
				default:
					d := time.Duration(1+r.IntN(3))*10*time.Minute + 5*time.Minute // never as long as a hold
					w.Advance(t, d)
					if left -= d; left <= 0 {
						holder = -1
					}
				}
			}
		}})
	}
	return all
}

func resultValues() (all []Case) {
	for i, value := range []string{
		`null`, `true`, `0`, `-1.5e300`, `""`, `"text"`, `"\u0000"`, `"äöü €"`, `"\ud83d\ude00"`, `[]`, `[1,[2,[3]]]`, `{}`, `{"a":{"b":[null]}}`,
		` {"spaces" : 1 } `, `{"a":1,"a":2}`, `12345678901234567890`, `"` + strings.Repeat("x", live.MaxResult-2) + `"`,
	} {
		all = append(all, Case{fmt.Sprintf("result %d %.20q", i, value), func(t *testing.T, w *World) {
			of := w.Attempt(t)
			ok(t, w.SetResult(t.Context(), w.Workspace, of, json.RawMessage(value), 0))
			w.tells(t, of, value)
		}})
	}
	for i, value := range []string{``, ` `, `{`, `{"a":}`, `nul`, "\xff", "\"\xff\"", "\x00", `"` + strings.Repeat("x", live.MaxResult-1) + `"`} {
		all = append(all, Case{fmt.Sprintf("result refused %d", i), func(t *testing.T, w *World) {
			of := w.Attempt(t)
			invalid(t, w.SetResult(t.Context(), w.Workspace, of, json.RawMessage(value), 0), "result")
			w.tellsNothing(t, w.Workspace, of)
		}})
	}
	for i, of := range []live.Attempt{
		{Number: 1}, {Task: "a task", Number: 1}, {Task: strings.Repeat("0", 36), Number: 1},
		{Task: newID()}, {Task: newID(), Number: -1}, {Task: newID(), Number: 1 << 32},
	} {
		all = append(all, Case{fmt.Sprintf("result of no attempt %d", i), func(t *testing.T, w *World) {
			field := "attempt"
			if i < 3 {
				field = "task"
			}
			invalid(t, w.SetResult(t.Context(), w.Workspace, of, json.RawMessage(`1`), 0), field)
			_, _, err := w.GetResult(t.Context(), w.Workspace, of)
			invalid(t, err, field)
		}})
	}
	for _, ttl := range []time.Duration{-1, time.Microsecond, live.MaxResultTTL + time.Millisecond} {
		all = append(all, Case{"result ttl refused " + ttl.String(), func(t *testing.T, w *World) {
			invalid(t, w.SetResult(t.Context(), w.Workspace, w.Attempt(t), json.RawMessage(`1`), ttl), "ttl")
		}})
	}
	for _, ttl := range []time.Duration{0, time.Minute, time.Hour, 24 * time.Hour} {
		all = append(all, Case{"result lives " + ttl.String(), func(t *testing.T, w *World) {
			of := w.Attempt(t)
			ok(t, w.SetResult(t.Context(), w.Workspace, of, json.RawMessage(`1`), ttl))
			if ttl == 0 {
				ttl = 3600 * time.Second
			}
			w.Advance(t, ttl-30*time.Second)
			w.tells(t, of, `1`)
			w.Advance(t, 31*time.Second)
			w.tellsNothing(t, w.Workspace, of)
		}})
	}
	return all
}

func (w *World) tells(t testing.TB, of live.Attempt, want string) {
	t.Helper()
	got, there, err := w.GetResult(t.Context(), w.Workspace, of)
	ok(t, err)
	if !there || string(got) != want {
		t.Errorf("%.60s, %t; want %.60s", got, there, want)
	}
}

func (w *World) tellsNothing(t testing.TB, ws db.Workspace, of live.Attempt) {
	t.Helper()
	if got, there, err := w.GetResult(t.Context(), ws, of); err != nil || there || got != nil {
		t.Errorf("%.60s, %t, %v; want none", got, there, err)
	}
}

func resultCases() []Case {
	set := func(t testing.TB, w *World, of live.Attempt, value string) {
		t.Helper()
		ok(t, w.SetResult(t.Context(), w.Workspace, of, json.RawMessage(value), 0))
	}
	return []Case{
		{"not yet", func(t *testing.T, w *World) { w.tellsNothing(t, w.Workspace, w.Attempt(t)) }},
		{"of an attempt that nobody began", func(t *testing.T, w *World) {
			of := live.Attempt{Task: newID(), Number: 1}
			w.tellsNothing(t, w.Workspace, of)
			if err := w.SetResult(t.Context(), w.Workspace, of, json.RawMessage(`1`), 0); w.AnyAttempt {
				ok(t, err)
			} else {
				is(t, err, db.ErrReference)
			}
		}},
		{"replaced", func(t *testing.T, w *World) {
			of := w.Attempt(t)
			set(t, w, of, `1`)
			set(t, w, of, `{"now":"this"}`)
			w.tells(t, of, `{"now":"this"}`)
		}},
		{"replaced lives anew", func(t *testing.T, w *World) {
			of := w.Attempt(t)
			set(t, w, of, `1`)
			w.Advance(t, 59*time.Minute)
			set(t, w, of, `2`)
			w.Advance(t, 59*time.Minute)
			w.tells(t, of, `2`)
		}},
		{"set again after its time", func(t *testing.T, w *World) {
			of := w.Attempt(t)
			set(t, w, of, `1`)
			w.Advance(t, 61*time.Minute)
			set(t, w, of, `2`)
			w.tells(t, of, `2`)
		}},
		{"of two attempts", func(t *testing.T, w *World) {
			a, b := w.Attempt(t), w.Attempt(t)
			set(t, w, a, `"a"`)
			w.tellsNothing(t, w.Workspace, b)
			set(t, w, b, `"b"`)
			w.tells(t, a, `"a"`)
			w.tells(t, b, `"b"`)
		}},
		{"of another number", func(t *testing.T, w *World) {
			of := w.Attempt(t)
			set(t, w, of, `1`)
			of.Number++
			w.tellsNothing(t, w.Workspace, of)
		}},
		{"read from another workspace", func(t *testing.T, w *World) {
			of := w.Attempt(t)
			set(t, w, of, `1`)
			w.tellsNothing(t, w.Other, of)
		}},
		{"set by many at once", func(t *testing.T, w *World) {
			of := w.Attempt(t)
			at(t.Context(), 8, func(ctx context.Context, i int) {
				if err := w.SetResult(ctx, w.Workspace, of, json.RawMessage(fmt.Sprint(i)), 0); err != nil {
					t.Error(err)
				}
			})
			if _, there, err := w.GetResult(t.Context(), w.Workspace, of); err != nil || !there {
				t.Error(there, err)
			}
		}},
		{"read by many at once", func(t *testing.T, w *World) {
			of := w.Attempt(t)
			set(t, w, of, `7`)
			at(t.Context(), 8, func(ctx context.Context, _ int) {
				if got, there, err := w.GetResult(ctx, w.Workspace, of); err != nil || !there || string(got) != `7` {
					t.Error(string(got), there, err)
				}
			})
		}},
	}
}
