package halt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine.
type world struct {
	dbtest.Env
	s *halt.Store
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		s, err := halt.New(e.DB, func() string { return uuid.Must(uuid.NewV7()).String() })
		if err != nil {
			t.Fatal(err)
		}
		fn(t, world{e, s})
	})
}

func (w world) tx(t testing.TB, fn func(context.Context, *db.Tx) error) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, fn)
}

func TestKillSwitches(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		on := func() halt.Switches {
			var b db.Batch
			k := w.s.On(&b)
			if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
			return *k
		}
		set := func(scope halt.Scope, target string) (k halt.Switch, err error) {
			err = w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
				k, err = w.s.Set(ctx, tx, halt.Switch{Scope: scope, Target: target, Reason: "r", SetBy: "user:1"})
				return err
			})
			return k, err
		}
		if k := on(); k.Run("operator", "m") != "" || k.Skill("s") != "" {
			t.Errorf("at first %+v is on", k)
		}
		ids := map[string]string{}
		for scope, target := range map[halt.Scope]string{halt.Agent: "operator", halt.Model: "m", halt.Skill: "s"} {
			first, err := set(scope, target)
			again, err2 := set(scope, target)
			if err := errors.Join(err, err2); err != nil || first != again {
				t.Errorf("%s: %+v, then %+v, %v", scope, first, again, err)
			}
			ids[string(scope)] = first.ID
		}
		k := on()
		if k.Run("operator", "x") == "" || k.Run("other", "m") == "" || k.Run("other", "x", "m") != "a kill switch stops the model m" || k.Run("other", "x") != "" || k.Skill("s") == "" || k.Skill("t") != "" {
			t.Errorf("on are %+v", k)
		}
		whole, err := set(halt.Workspace, "")
		if err != nil || on().Run("other", "x") == "" {
			t.Errorf("the workspace: %v", err)
		}
		release := func(id string) error {
			return w.tx(t, func(ctx context.Context, tx *db.Tx) error {
				_, _, err := w.s.Release(ctx, tx, id, "user:2")
				return err
			})
		}
		if err := release(whole.ID); err != nil || on().Run("other", "x") != "" {
			t.Errorf("released: %v", err)
		}
		first, err := w.s.Get(t.Context(), w.Workspace, whole.ID)
		if err := errors.Join(err, release(whole.ID)); err != nil {
			t.Errorf("released twice: %v", err)
		}
		if again, err := w.s.Get(t.Context(), w.Workspace, whole.ID); err != nil || !again.ReleasedAt.Equal(*first.ReleasedAt) {
			t.Errorf("released again at %v, before at %v, %v", again.ReleasedAt, first.ReleasedAt, err)
		}
		if err := release("8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"); !errors.Is(err, halt.ErrNotFound) {
			t.Errorf("one that is not there: %v", err)
		}
		if all, err := w.s.List(t.Context(), w.Workspace, halt.Filter{Limit: 10}); err != nil || len(all) != 4 || all[0].ReleasedBy != "user:2" {
			t.Errorf("listed %+v, %v", all, err)
		}
		for _, active := range []bool{true, false} {
			found, err := w.s.List(t.Context(), w.Workspace, halt.Filter{Active: &active, Limit: 10})
			if want := map[bool]int{true: 3, false: 1}[active]; err != nil || len(found) != want || (found[0].ReleasedAt == nil) != active {
				t.Errorf("of those that are on (%v) there are %+v, %v", active, found, err)
			}
		}
		for _, wrong := range []halt.Switch{{Scope: "all"}, {Scope: halt.Agent}, {Scope: halt.Workspace, Target: "x"}, {Scope: halt.Skill, Target: strings.Repeat("x", 256)}} {
			if _, err := set(wrong.Scope, wrong.Target); err == nil {
				t.Errorf("%+v was taken", wrong)
			} else if _, ok := errors.AsType[*problem.InvalidError](err); !ok {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
	})
}

// TestWhoSetsASwitchHasItOn: who sets a switch that is on already has it on until the transaction ends. A release
// at the same moment comes after it.
func TestWhoSetsASwitchHasItOn(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var k halt.Switch
		set := func(ctx context.Context, tx *db.Tx) (err error) {
			k, err = w.s.Set(ctx, tx, halt.Switch{Scope: halt.Workspace, Reason: "r", SetBy: "user:1"})
			return err
		}
		if err := w.tx(t, set); err != nil {
			t.Fatal(err)
		}
		other, _ := w.Open(t, 0)
		s, err := halt.New(other, uuid.NewString)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		var released error
		err = w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			if err := set(ctx, tx); err != nil {
				return err
			}
			go func() {
				defer close(done)
				released = other.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
					_, _, err := s.Release(ctx, tx, k.ID, "user:2")
					return err
				})
			}()
			dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
			select {
			case <-done:
				t.Error("it was released before who set it had ended")
			default:
			}
			return nil
		})
		<-done
		if err := errors.Join(err, released); err != nil {
			t.Error(err)
		}
	})
}

func TestEverySwitchThatIsSetStops(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		set := func(k halt.Switch) error {
			k.Reason, k.SetBy = "r", "user:1"
			return w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.s.Set(ctx, tx, k); return err })
		}
		for i := range 501 {
			if err := set(halt.Switch{Scope: halt.Skill, Target: fmt.Sprint("s", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := set(halt.Switch{Scope: halt.Workspace}); err != nil {
			t.Fatal(err)
		}
		var b db.Batch
		on := w.s.On(&b)
		if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		if on.Run("operator", "m") == "" {
			t.Error("the workspace's switch was set, and stops nothing")
		}
	})
}
