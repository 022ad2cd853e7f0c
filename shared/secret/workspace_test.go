package secret_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// A guard knows secrets of the workspace that nobody resolved, and forgets deleted ones.
func TestAGuardKnowsTheSecretsOfAWorkspace(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		clock := &steps{now: time.Unix(1_800_000_000, 0)}
		guard := secret.NewGuard(w.Store, knowing("of-the-configuration"), clock.Now, slog.New(slog.DiscardHandler))
		ctx := t.Context()
		w.put(t, "first", "hunter2-hunter2")
		w.put(t, "short", "common")
		text := "hunter2-hunter2 second-second common of-the-configuration &#104;unter2&#45;hunter2 "
		look := func(want ...string) {
			t.Helper()
			got := strings.Fields(guard.Redactor(ctx, w.Workspace).Text(text))
			for i := range want {
				if want[i] == "-" {
					want[i] = redact.Mark
				}
				if got[i] != want[i] {
					t.Errorf("word %d is %s, want %s", i, got[i], want[i])
				}
			}
		}
		look("-", "second-second", "common", "-", "-")
		w.put(t, "second", "second-second")
		look("-", "second-second", "common", "-")
		clock.Advance(5 * time.Second)
		look("-", "-", "common", "-")
		guard.Learn(w.Workspace, secret.NewValue("common-no-more"))
		if got := guard.Redactor(ctx, w.Workspace).Text("common-no-more"); got != redact.Mark {
			t.Errorf("what was learnt is %q", got)
		}
		if err := w.Delete(ctx, w.Workspace, "first"); err != nil {
			t.Fatal(err)
		}
		w.put(t, "second", "another-value")
		clock.Advance(time.Hour)
		look("hunter2-hunter2", "second-second", "common", "-")
		if got := guard.Redactor(ctx, dbtest.NewWorkspace(t, w.DB)).Text("another-value of-the-configuration"); got != "another-value "+redact.Mark {
			t.Errorf("in another workspace it is %q", got)
		}
	})
}

// The first caller may have left, and a secret may have any valid name.
func TestAGuardKnowsThoughItsFirstCallerHasLeft(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		guard := secret.NewGuard(w.Store, nil, time.Now, slog.New(slog.DiscardHandler))
		w.put(t, "lanekeeper.stripe", "hunter2-hunter2")
		gone, leave := context.WithCancel(t.Context())
		leave()
		if got := guard.Redactor(gone, w.Workspace).Text("hunter2-hunter2"); got != redact.Mark {
			t.Errorf("it is %q", got)
		}
	})
}

// Many secrets are opened once each, up to a limit. Those that can't be opened are left out.
func TestAGuardIsBounded(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		keeper := &counting{Keeper: w.keys}
		store, err := secret.New(w.DB, keeper)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for i := range 120 {
			texts = append(texts, fmt.Sprintf("the-secret-of-number-%03d", i))
			w.put(t, fmt.Sprintf("s%03d", i), texts[i])
		}
		w.put(t, "large", strings.Repeat("x", 20<<10))
		clock := &steps{now: time.Unix(1_800_000_000, 0)}
		guard := secret.NewGuard(store, nil, clock.Now, slog.New(slog.DiscardHandler))
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { guard.Redactor(context.Background(), w.Workspace) })
		}
		all.Wait()
		clock.Advance(time.Minute)
		r := guard.Redactor(t.Context(), w.Workspace)
		known := 0
		for _, text := range texts {
			if r.Text(text) == redact.Mark {
				known++
			}
		}
		if known != 100 || keeper.opened.Load() != 100 {
			t.Errorf("%d are known, %d were opened", known, keeper.opened.Load())
		}

		broken := &counting{Keeper: w.keys, fails: true}
		if store, err = secret.New(w.DB, broken); err != nil {
			t.Fatal(err)
		}
		guard = secret.NewGuard(store, knowing("of-the-configuration"), clock.Now, slog.New(slog.DiscardHandler))
		if got := guard.Redactor(t.Context(), w.Workspace).Text("of-the-configuration"); got != redact.Mark {
			t.Errorf("without a key it is %q", got)
		}
	})
}

// A text that only has the name or the form of a secret stays unchanged, so that its meaning does
// not change.
func TestValuesAloneAreTakenOut(t *testing.T) {
	r := knowing("hunter2-hunter2").Values()
	in := `{"password":"abc","note":"token=xyz of hunter2-hunter2","n":5.0}`
	if got, want := string(r.JSON([]byte(in))), `{"password":"abc","note":"token=xyz of [redacted]","n":5.0}`; got != want {
		t.Errorf("it is %s", got)
	}
	if got := r.Text("password=abc ghp_0123456789abcdefghij"); got != "password=abc ghp_0123456789abcdefghij" {
		t.Errorf("it is %s", got)
	}
}

// steps is a clock that a test advances.
type steps struct {
	mu  sync.Mutex
	now time.Time
}

func (s *steps) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *steps) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// counting counts the keys that are unwrapped.
type counting struct {
	secret.Keeper
	opened atomic.Int64
	fails  bool
	as     error // nil: the key service is down
}

func (c *counting) Unwrap(ctx context.Context, keyID string, wrapped []byte, at secret.Place) ([]byte, error) {
	c.opened.Add(1)
	if c.fails {
		return nil, cmp.Or(c.as, secret.ErrUnavailable)
	}
	return c.Keeper.Unwrap(ctx, keyID, wrapped, at)
}

// A damaged secret is tried again after a pause, and not by each look. A secret whose key service
// is down is tried again by the next look.
func TestAGuardTriesDamagedSecretsSeldom(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, c := range []struct {
			err  error
			want []int64 // opened after each of the looks
		}{{secret.ErrDamaged, []int64{1, 1, 2}}, {secret.ErrUnavailable, []int64{1, 2, 3}}} {
			keeper := &counting{Keeper: w.keys, fails: true, as: c.err}
			store, err := secret.New(w.DB, keeper)
			if err != nil {
				t.Fatal(err)
			}
			w.put(t, "broken", "hunter2-hunter2")
			clock := &steps{now: time.Unix(1_800_000_000, 0)}
			guard := secret.NewGuard(store, nil, clock.Now, slog.New(slog.DiscardHandler))
			for i, wait := range []time.Duration{0, 6 * time.Second, time.Minute} {
				clock.Advance(wait)
				guard.Redactor(t.Context(), w.Workspace)
				if got := keeper.opened.Load(); got != c.want[i] {
					t.Errorf("%v: look %d: opened %d times, want %d", c.err, i+1, got, c.want[i])
				}
			}
			keeper.fails = false
			clock.Advance(time.Minute)
			if got := guard.Redactor(t.Context(), w.Workspace).Text("hunter2-hunter2"); got != redact.Mark {
				t.Errorf("%v: mended, it is %q", c.err, got)
			}
		}
	})
}

// A process that serves more workspaces than a guard keeps forgets only the least recently used
// one.
func TestAGuardForgetsOneWorkspaceAtATime(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		keeper := &counting{Keeper: w.keys}
		store, err := secret.New(w.DB, keeper)
		if err != nil {
			t.Fatal(err)
		}
		w.put(t, "kept", "hunter2-hunter2")
		guard := secret.NewGuard(store, nil, (&steps{now: time.Unix(1_800_000_000, 0)}).Now, slog.New(slog.DiscardHandler))
		for i := range 400 {
			guard.Learn(db.Workspace(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)), secret.NewValue("of-another-one"))
			guard.Redactor(t.Context(), w.Workspace)
		}
		if got := keeper.opened.Load(); got != 1 {
			t.Errorf("the secret was opened %d times", got)
		}
	})
}
