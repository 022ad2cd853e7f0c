package automation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine with its automations.
type world struct {
	dbtest.Env
	s     *automation.Store
	lanes *lane.Store
}

type queries struct{ Happens, Misplace, Unsettled, BreakSchedule db.Query }

// queries returns additional statements of the tests.
func (w world) queries(t testing.TB) (q queries) {
	t.Helper()
	dbtest.Load(t, "testdata", &q)
	return q
}

func (w world) sql(t testing.TB, q db.Query, args ...any) {
	t.Helper()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, q, args...); err != nil {
		t.Fatal(err)
	}
}

// happens adds an event and waits until it has settled. Any open transaction of the cluster, in any
// database, delays it.
func (w world) happens(t testing.TB, kind, subject string) {
	t.Helper()
	q := w.queries(t)
	w.sql(t, q.Happens, kind, subject)
	for open := 1; open > 0; {
		if err := w.DB.One(t.Context(), w.Workspace, []any{&open}, q.Unsettled); err != nil {
			t.Fatal(err)
		}
	}
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := world{Env: e}
		var err1, err2 error
		w.s, err1 = automation.New(e.DB, func() string { return uuid.Must(uuid.NewV7()).String() })
		w.lanes, err2 = lane.New(e.DB)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		fn(t, w)
	})
}

func (w world) create(t testing.TB, a automation.Automation) (made automation.Automation, err error) {
	t.Helper()
	a.CreatedBy, a.Enabled = "test", true
	err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		made, err = w.s.Create(ctx, tx, a)
		return err
	})
	return made, err
}

func (w world) hourly(t testing.TB, name string) automation.Automation {
	t.Helper()
	a, err := w.create(t, automation.Automation{Name: name, Skill: "echo", Cron: "@hourly"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (w world) due(t testing.TB) (names []string) {
	t.Helper()
	var b db.Batch
	found := w.s.Due(&b, 100)
	if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	for _, d := range *found {
		names = append(names, d.Name)
	}
	return names
}

func (w world) claim(t testing.TB, id string) (r automation.Run, ok bool) {
	t.Helper()
	request := lane.Request{Workspace: w.Workspace, Lane: lane.Automation(id), Holder: "test"}
	err := w.lanes.Do(t.Context(), request, lane.Wait{}, func(ctx context.Context, hold *lane.Hold) error {
		return w.lanes.InHold(ctx, hold, func(ctx context.Context, tx lane.Tx) (err error) {
			r, ok, err = w.s.Claim(ctx, tx, id)
			tx.Release(w.lanes, hold)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, ok
}

func (w world) get(t testing.TB, ref string) automation.Automation {
	t.Helper()
	a, err := w.s.Get(t.Context(), w.Workspace, ref)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tx runs fn in a transaction.
func (w world) tx(t testing.TB, fn func(context.Context, *db.Tx) error) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, fn)
}

// TestAMissedTimeIsMadeUpForOnce, however many times were missed.
func TestAMissedTimeIsMadeUpForOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.hourly(t, "digest")
		if due := w.due(t); len(due) > 0 {
			t.Fatalf("due at once: %v", due)
		}
		if _, ok := w.claim(t, a.ID); ok {
			t.Fatal("claimed before its time")
		}
		w.Skew.Advance(7 * time.Hour)
		if due := w.due(t); !slices.Equal(due, []string{"digest"}) {
			t.Fatalf("due: %v", due)
		}
		r, ok := w.claim(t, a.ID)
		if !ok || r.Name != "digest" || r.Skill != "echo" || string(r.Input) != "{}" || r.Event != nil {
			t.Fatalf("claimed %+v, %v", r, ok)
		}
		if _, again := w.claim(t, a.ID); again || len(w.due(t)) > 0 {
			t.Error("it is due again at once")
		}
		next := *w.get(t, a.ID).NextRunAt
		if ahead := next.Sub(*a.NextRunAt); ahead < 7*time.Hour || ahead > 8*time.Hour || next.Minute() != 0 {
			t.Errorf("the next time is %v, after %v", next, *a.NextRunAt)
		}
	})
}

// TestAnEventMakesItDue once, however many events came while it was enabled.
func TestAnEventMakesItDue(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		happens := func(kind, subject string) { w.happens(t, kind, subject) }
		happens("objective.completed", "before")
		a, err := w.create(t, automation.Automation{Name: "thanks", Skill: "echo", Event: "objective.completed", Input: json.RawMessage(`{"a":1}`)})
		if err != nil || a.NextRunAt != nil {
			t.Fatal(a, err)
		}
		if _, ok := w.claim(t, a.ID); ok || len(w.due(t)) > 0 {
			t.Fatal("an event from before counts")
		}
		happens("objective.paused", "other")
		happens("objective.completed", "one")
		happens("objective.completed", "two")
		if due := w.due(t); !slices.Equal(due, []string{"thanks"}) {
			t.Fatalf("due: %v", due)
		}
		r, ok := w.claim(t, a.ID)
		if !ok || r.Event == nil || r.Event.Count != 2 || r.Event.Subject != "two" || r.Event.Kind != "objective.completed" || string(r.Input) != `{"a":1}` {
			t.Fatalf("claimed %+v, %v", r, ok)
		}
		if _, ok := w.claim(t, a.ID); ok || len(w.due(t)) > 0 {
			t.Error("it is due again")
		}
		a = w.get(t, a.ID)
		change := func(fn func(context.Context, *db.Tx) (automation.Automation, bool, error)) {
			t.Helper()
			if err := w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) { a, _, err = fn(ctx, tx); return err }); err != nil {
				t.Fatal(err)
			}
		}
		change(func(ctx context.Context, tx *db.Tx) (automation.Automation, bool, error) {
			return w.s.Disable(ctx, tx, a, skill.Human, "holidays")
		})
		happens("objective.completed", "meanwhile")
		if _, ok := w.claim(t, a.ID); ok || len(w.due(t)) > 0 || a.Enabled || a.DisabledBy != skill.Human || a.DisabledReason != "holidays" || a.DisabledAt == nil {
			t.Errorf("disabled, it is %+v", a)
		}
		change(func(ctx context.Context, tx *db.Tx) (automation.Automation, bool, error) {
			return w.s.Enable(ctx, tx, a, skill.Human)
		})
		if _, ok := w.claim(t, a.ID); ok || len(w.due(t)) > 0 {
			t.Error("what came while it was disabled counts")
		}
		happens("objective.completed", "again")
		if r, ok := w.claim(t, a.ID); !ok || r.Event.Subject != "again" {
			t.Errorf("claimed %+v, %v", r, ok)
		}
	})
}

func TestAPositionOfAnotherClusterCountsForNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		if w.DB.Dialect() == db.SQLite {
			return // SQLite has one writer and no transaction ids
		}
		a, err := w.create(t, automation.Automation{Name: "restored", Skill: "echo", Event: "memory.saved"})
		if err != nil {
			t.Fatal(err)
		}
		w.sql(t, w.queries(t).Misplace)
		w.happens(t, "memory.saved", "m")
		if _, ok := w.claim(t, a.ID); !ok {
			t.Error("it is mute for ever")
		}
	})
}

// TestAChangeKeepsWhatIsDue, unless the schedule changes.
func TestAChangeKeepsWhatIsDue(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.hourly(t, "old")
		w.Skew.Advance(2 * time.Hour)
		name, daily := "new", "@daily"
		for _, c := range []struct {
			patch automation.Patch
			due   int
		}{{automation.Patch{Name: &name}, 1}, {automation.Patch{Cron: &daily}, 0}} {
			a := w.get(t, w.list(t)[0].ID)
			if err := w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.s.Patch(ctx, tx, a, c.patch); return err }); err != nil {
				t.Fatal(err)
			}
			if due := w.due(t); len(due) != c.due {
				t.Errorf("due are %v", due)
			}
		}
	})
}

func (w world) list(t testing.TB) []automation.Automation {
	t.Helper()
	all, err := w.s.List(t.Context(), w.Workspace, automation.Filter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAnOpenTransactionHidesNothing: an automation is created or enabled while an older transaction
// is open. It still starts from its own time, and gets the events of that transaction.
func TestAnOpenTransactionHidesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.happens(t, "memory.saved", "before")
		if w.DB.Dialect() == db.SQLite {
			return // SQLite has one writer
		}
		old, err := w.create(t, automation.Automation{Name: "old", Skill: "echo", Event: "memory.saved"})
		if err != nil {
			t.Fatal(err)
		}
		var fresh automation.Automation
		slow, hourly, q := w.hourly(t, "slow"), "@hourly", w.queries(t)
		err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			if _, err := w.s.Patch(ctx, tx, slow, automation.Patch{Cron: &hourly}); err != nil { // a write assigns a transaction id
				return err
			}
			w.aside(t, func(w world) {
				w.sql(t, q.Happens, "memory.saved", "just before")
				err1 := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
					off, _, err := w.s.Disable(ctx, tx, old, skill.Human, "")
					if err == nil {
						_, _, err = w.s.Enable(ctx, tx, off, skill.Human)
					}
					return err
				})
				var err2 error
				fresh, err2 = w.create(t, automation.Automation{Name: "fresh", Skill: "echo", Event: "memory.saved"})
				if err := errors.Join(err1, err2); err != nil {
					t.Error(err)
				}
				if _, ok := w.claim(t, fresh.ID); ok {
					t.Error("it was claimed for an event from before")
				}
			})
			_, err := tx.Exec(ctx, q.Happens, "memory.saved", "late")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for open := 1; open > 0; {
			if err := w.DB.One(t.Context(), w.Workspace, []any{&open}, q.Unsettled); err != nil {
				t.Fatal(err)
			}
		}
		if due := w.due(t); !slices.Contains(due, "fresh") || !slices.Contains(due, "old") {
			t.Errorf("due are %v", due)
		}
		if r, ok := w.claim(t, fresh.ID); !ok || r.Event.Count != 1 || r.Event.Subject != "late" {
			t.Errorf("what was just made claims %+v of %+v, %v", r.Event, r, ok)
		}
		if _, ok := w.claim(t, old.ID); !ok {
			t.Error("what was just enabled is not claimed")
		}
		w.happens(t, "memory.saved", "after")
		if r, ok := w.claim(t, fresh.ID); !ok || r.Event.Count != 1 {
			t.Errorf("claimed %+v, %v", r, ok)
		}
	})
}

// aside returns the same workspace as another process sees it.
func (w world) aside(t testing.TB, fn func(world)) {
	t.Helper()
	w.DB, w.Skew = w.Open(t, 0)
	var err1, err2 error
	w.s, err1 = automation.New(w.DB, func() string { return uuid.Must(uuid.NewV7()).String() })
	w.lanes, err2 = lane.New(w.DB)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	fn(w)
}

func TestSelfHealingGivesBackWhatItTook(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a, b, other := w.hourly(t, "a"), w.hourly(t, "b"), w.hourly(t, "other")
		err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			name := "weather"
			for _, x := range []automation.Automation{a, b} {
				if _, err := w.s.Patch(ctx, tx, x, automation.Patch{Skill: &name}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		if err := w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
			ids, err = w.s.DisableUsing(ctx, tx, "weather", "3 failures in a row")
			return err
		}); err != nil || len(ids) != 2 {
			t.Fatalf("disabled %v, %v", ids, err)
		}
		if got := w.get(t, "a"); got.Enabled || got.DisabledBy != skill.SelfHealing || got.NextRunAt != nil || !w.get(t, other.ID).Enabled {
			t.Fatalf("it is %+v", got)
		}
		b = w.get(t, b.ID)
		n := 0
		if err := w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
			if _, _, err := w.s.Disable(ctx, tx, b, skill.Human, "mine"); err != nil {
				return err
			}
			n, err = w.s.EnableAgain(ctx, tx, append(ids, uuid.NewString()), 3)
			return err
		}); err != nil || n != 1 {
			t.Fatalf("gave back %d, %v", n, err)
		}
		if got := w.get(t, "a"); !got.Enabled || got.NextRunAt == nil {
			t.Errorf("a is %+v", got)
		}
		if got := w.get(t, "b"); got.Enabled || got.DisabledBy != skill.Human {
			t.Errorf("b is %+v", got)
		}
	})
}

// TestSelfHealingTakesWhatItCannotRead: a schedule that this build does not know does not keep self-healing from
// its other work.
func TestSelfHealingTakesWhatItCannotRead(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		broken, sound := w.hourly(t, "broken"), w.hourly(t, "sound")
		w.sql(t, w.queries(t).BreakSchedule, broken.ID)
		var ids []string
		err := w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
			ids, err = w.s.DisableUsing(ctx, tx, "echo", "3 failures in a row")
			return err
		})
		if err != nil || len(ids) != 2 || w.get(t, broken.ID).Enabled || w.get(t, broken.ID).NextRunAt != nil {
			t.Fatalf("disabled %v, %v", ids, err)
		}
		n := 0
		err = w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
			n, err = w.s.EnableAgain(ctx, tx, ids, 2)
			return err
		})
		if err != nil || n != 1 || w.get(t, broken.ID).Enabled || !w.get(t, sound.ID).Enabled {
			t.Errorf("gave back %d, %v", n, err)
		}
		zone := "UTC"
		err = w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			mended, err := w.s.Patch(ctx, tx, w.get(t, broken.ID), automation.Patch{TimeZone: &zone})
			if err == nil {
				_, _, err = w.s.Enable(ctx, tx, mended, skill.Human)
			}
			return err
		})
		if err != nil || w.get(t, broken.ID).NextRunAt == nil {
			t.Errorf("mended: %v", err)
		}
	})
}

// TestSelfHealingWaitsForWhoEdits: an automation that a person edits at the same moment is read once the edit
// has ended.
func TestSelfHealingWaitsForWhoEdits(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for name, heal := range map[string]func(context.Context, *db.Tx, string) (int, error){
			"takes": func(ctx context.Context, tx *db.Tx, _ string) (int, error) {
				ids, err := w.s.DisableUsing(ctx, tx, "echo", "3 failures in a row")
				return len(ids), err
			},
			"gives back": func(ctx context.Context, tx *db.Tx, id string) (int, error) {
				return w.s.EnableAgain(ctx, tx, []string{id}, 1)
			},
		} {
			a := w.hourly(t, name)
			if name == "gives back" {
				err := w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
					a, _, err = w.s.Disable(ctx, tx, a, skill.SelfHealing, "3 failures in a row")
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan struct{})
			var n int
			var healed error
			edited := name + ", edited"
			w.aside(t, func(other world) {
				err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
					if _, err := w.s.Patch(ctx, tx, a, automation.Patch{Name: &edited}); err != nil {
						return err
					}
					go func() {
						defer close(done)
						healed = other.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
							n, err = heal(ctx, tx, a.ID)
							return err
						})
					}()
					dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			<-done
			if healed != nil || n != 1 || w.get(t, a.ID).Name != edited {
				t.Errorf("%s: %d, %v", name, n, healed)
			}
			if err := w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.s.Delete(ctx, tx, a.ID); return err }); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestWhatIsWrongIsSaidAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		_, err := w.create(t, automation.Automation{Input: json.RawMessage(`[1]`), Cron: "0 0 30 2 *", TimeZone: "Mars"})
		wrong, ok := errors.AsType[*problem.InvalidError](err)
		if !ok || len(wrong.Fields) != 4 {
			t.Fatalf("%v", err)
		}
		for _, a := range []automation.Automation{
			{Name: "x", Skill: "s"}, {Name: "x", Skill: "s", Cron: "@daily", Event: "memory.saved"}, {Name: "x", Skill: "s", Event: "nonsense"},
			{Name: "x", Skill: "s", Event: "memory.saved", TimeZone: "UTC"}, {Name: strings.Repeat("x", 201), Skill: "s", Cron: "@daily"},
			{Name: "x", Skill: "s", Cron: "@daily", Input: json.RawMessage("null")}, {Name: uuid.NewString(), Skill: "s", Cron: "@daily"},
		} {
			if _, err := w.create(t, a); err == nil {
				t.Errorf("%+v was taken", a)
			} else if _, ok := errors.AsType[*problem.InvalidError](err); !ok {
				t.Errorf("%+v: %v", a, err)
			}
		}
		a := w.hourly(t, "one")
		if _, err := w.create(t, automation.Automation{Name: "one", Skill: "s", Cron: "@daily"}); !errors.Is(err, automation.ErrTaken) {
			t.Errorf("the name again: %v", err)
		}
		zone := "Asia/Tokyo"
		for i, want := range []error{nil, automation.ErrChanged} {
			err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.Patch(ctx, tx, a, automation.Patch{TimeZone: &zone})
				return err
			})
			if !errors.Is(err, want) {
				t.Errorf("change %d: %v", i, err)
			}
		}
		if _, err := w.s.Get(t.Context(), dbtest.NewWorkspace(t, w.DB), a.ID); !errors.Is(err, automation.ErrNotFound) {
			t.Errorf("a neighbour reads it: %v", err)
		}
	})
}

// TestWhatAPersonEditsIsTheirs: an edit makes it trusted. Disabling and enabling does not change
// the trust.
func TestWhatAPersonEditsIsTheirs(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a, err := w.create(t, automation.Automation{Name: "n", Skill: "echo", Cron: "@daily", Untrusted: true})
		if err != nil || !a.Untrusted {
			t.Fatalf("it is %+v, %v", a, err)
		}
		err = w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			if a, _, err = w.s.Disable(ctx, tx, a, skill.SelfHealing, "3 failures"); err != nil || !a.Untrusted {
				t.Errorf("disabled it is %+v", a)
			}
			if a, _, err = w.s.Enable(ctx, tx, a, skill.SelfHealing); err != nil || !a.Untrusted {
				t.Errorf("enabled it is %+v", a)
			}
			a, err = w.s.Patch(ctx, tx, a, automation.Patch{Input: []byte(`{"x": 1}`)})
			return err
		})
		if err != nil || a.Untrusted || w.get(t, "n").Untrusted {
			t.Errorf("edited it is %+v, %v", a, err)
		}
	})
}

// TestManyAtOnceDoNotPassTheLimit: the count includes concurrent creations.
func TestManyAtOnceDoNotPassTheLimit(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		const room, writers = 3, 8
		create := func(ctx context.Context, tx *db.Tx, name string) error {
			_, err := w.s.Create(ctx, tx, automation.Automation{Name: name, Skill: "echo", Cron: "@daily", CreatedBy: "test"})
			return err
		}
		if err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			for i := range automation.Max - room {
				if err := create(ctx, tx, fmt.Sprint("old", i)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var full atomic.Int32
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error { return create(ctx, tx, fmt.Sprint("new", i)) })
				if errors.Is(err, automation.ErrFull) {
					full.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		found, err := w.s.List(t.Context(), w.Workspace, automation.Filter{Limit: 2 * automation.Max})
		if err != nil || len(found) != automation.Max || full.Load() != writers-room {
			t.Errorf("there are %d automations, %d were too many, %v", len(found), full.Load(), err)
		}
	})
}

func TestTheListingPagesByName(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i := range 5 {
			w.hourly(t, fmt.Sprint("n", i))
		}
		var names []string
		for after := ""; ; {
			page, err := w.s.List(t.Context(), w.Workspace, automation.Filter{Skill: "echo", After: after, Limit: 2})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, a := range page {
				names = append(names, a.Name)
			}
			after = page[len(page)-1].Name
		}
		if !slices.Equal(names, []string{"n0", "n1", "n2", "n3", "n4"}) {
			t.Errorf("listed %v", names)
		}
	})
}

func TestAnAgentMakesOne(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		own, err := automation.Skills(w.s)
		if err != nil {
			t.Fatal(err)
		}
		set, err := skill.NewSet(own...)
		if err != nil {
			t.Fatal(err)
		}
		k, _ := set.Find("create_automation")
		outside := true
		use := func(arguments string) (out any, err error) {
			err = w.lanes.Do(t.Context(), lane.Request{Workspace: w.Workspace, Lane: "test", Holder: "test"}, lane.Wait{}, func(ctx context.Context, hold *lane.Hold) error {
				return w.lanes.InHold(ctx, hold, func(ctx context.Context, tx lane.Tx) error {
					out, err = k.Run(ctx, tx, skill.Call{Workspace: w.Workspace, Agent: "operator", Arguments: []byte(arguments), Offered: set, Untrusted: outside})
					return err
				})
			})
			return out, err
		}
		out, err := use(`{"name": "n", "skill": "create_automation", "input": {"name": "x", "skill": "y"}, "cron": "0 9 * * *", "timeZone": "Europe/Berlin"}`)
		if err != nil || out.(map[string]any)["automationId"] != w.get(t, "n").ID || w.get(t, "n").CreatedBy != "operator" {
			t.Fatalf("%v, %v", out, err)
		}
		w.Skew.Advance(25 * time.Hour)
		if r, due := w.claim(t, w.get(t, "n").ID); !due || !r.Untrusted {
			t.Errorf("made by a run that had read text from outside, it is %+v", r)
		}
		outside = false
		if _, err := use(`{"name": "own", "skill": "create_automation", "input": {"name": "x", "skill": "y"}, "cron": "@daily"}`); err != nil || w.get(t, "own").Untrusted {
			t.Errorf("made by another run, it is %+v, %v", w.get(t, "own"), err)
		}
		for _, wrong := range []string{
			`{"name": "m", "skill": "nothing", "cron": "@daily"}`, `{"name": "m", "skill": "create_automation", "cron": "@daily"}`,
			`{"name": "m", "skill": "create_automation", "input": {"name": "x", "skill": "y"}, "cron": "0 0 30 2 *"}`,
			`{"name": "n", "skill": "create_automation", "input": {"name": "x", "skill": "y"}, "cron": "@daily"}`,
		} {
			if _, err := use(wrong); skill.ClassOf(err) != skill.Input {
				t.Errorf("%s: %v", wrong, err)
			}
		}
	})
}
