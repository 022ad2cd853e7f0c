package call_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/call"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine, with a lane that is held and what calls under it recorded.
type world struct {
	dbtest.Env
	lanes    *lane.Store
	hold     *lane.Hold
	begun    int
	recorded []call.Result
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := &world{Env: e}
		var err error
		if w.lanes, err = lane.New(e.DB); err != nil {
			t.Fatal(err)
		}
		if w.hold, err = w.lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: "own", Holder: "test"}); err != nil {
			t.Fatal(err)
		}
		fn(t, w)
	})
}

// call returns a call of a skill, which records what it is told in w.
func (w *world) call(t *testing.T, k skill.Skill) call.Call {
	t.Helper()
	k.Name, k.Parameters = "act", []byte(`{"type": "object"}`)
	set, err := skill.NewSet(k)
	if err != nil {
		t.Fatal(err)
	}
	made, _ := set.Find("act")
	w.begun, w.recorded = 0, nil
	return call.Call{
		Name: "test", Skill: made, Input: skill.Call{Workspace: w.Workspace, Key: "k", Arguments: []byte(`{}`)}, Lanes: w.lanes,
		Holds: lane.Holds{w.hold}, Limit: time.Minute, Clock: time.Now,
		Begin: func(lane.Tx) error {
			w.begun++
			return nil
		},
		Result: func(_ context.Context, _ lane.Tx, r call.Result) error {
			w.recorded = append(w.recorded, r)
			return nil
		},
	}
}

// answers returns a skill that answers with one error after the other, and counts its calls.
func answers(keyed bool, asked *int, errs ...error) skill.Skill {
	return skill.Skill{Keyed: keyed, Do: func(context.Context, skill.Call) (any, error) {
		err := errs[*asked]
		*asked++
		return "done", err
	}}
}

func TestACallReleasesItsFurtherLane(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		held := func(context.Context, lane.Tx, skill.Call) (any, error) { return "done", nil }
		k := skill.Skill{Run: held, Lanes: func(skill.Call) []lane.Name { return []lane.Name{"own", "further"} }}
		before := w.DB.Stats()
		r, err := call.Make(t.Context(), w.call(t, k))
		if err != nil || r.Status != execution.Succeeded || len(w.recorded) != 1 || w.begun != 0 {
			t.Fatalf("made: %+v, %v; %d results, begun %d", r, err, len(w.recorded), w.begun)
		}
		// The further lane under the own one; the proofs of both and the release with the commit.
		if got, want := w.DB.Stats().Sub(before), (db.Stats{Statements: 4, RoundTrips: 2}); got != want {
			t.Errorf("it took %+v, want %+v", got, want)
		}
		if i, err := w.lanes.Peek(t.Context(), w.Workspace, "further"); err != nil || i.Held() {
			t.Errorf("the further lane afterwards: %+v, %v", i, err)
		}
	})
}

// TestACallIsPreparedBeforeItsTransaction: a refusal there is the result of the call, and the skill does
// not run. Another error records nothing.
func TestACallIsPreparedBeforeItsTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var failure error
		ran := 0
		k := skill.Skill{
			Prepare: func(context.Context, skill.Call) (any, error) { return "prepared", failure },
			Run: func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
				ran++
				return c.Prepared, nil
			},
		}
		if r, err := call.Make(t.Context(), w.call(t, k)); err != nil || string(r.Output) != `"prepared"` || len(w.recorded) != 1 {
			t.Errorf("made: %+v, %v", r, err)
		}
		failure = skill.Refuse("not now")
		if r, err := call.Make(t.Context(), w.call(t, k)); err != nil || r.Message != "not now" || r.Status != execution.Errored || len(w.recorded) != 1 {
			t.Errorf("refused: %+v, %v", r, err)
		}
		failure = db.ErrUnavailable
		if _, err := call.Make(t.Context(), w.call(t, k)); !errors.Is(err, db.ErrUnavailable) || len(w.recorded) != 0 || ran != 1 {
			t.Errorf("failed: %v, %d results, ran %d times", err, len(w.recorded), ran)
		}
	})
}

func TestAFurtherLaneMayBeRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		k := skill.Skill{
			Run:   func(context.Context, lane.Tx, skill.Call) (any, error) { return nil, errors.New("it ran") },
			Lanes: func(skill.Call) []lane.Name { return []lane.Name{"further"} },
		}
		c := w.call(t, k)
		c.Further = func(lane.Name) error { return skill.Refuse("not this one") }
		if r, err := call.Make(t.Context(), c); err != nil || r.Status != execution.Errored || r.Message != "not this one" || len(w.recorded) != 1 {
			t.Errorf("refused: %+v, %v", r, err)
		}
		if _, err := w.lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: "further", Holder: "other"}); err != nil {
			t.Fatal(err)
		}
		c = w.call(t, k)
		c.Limit = time.Millisecond
		if _, err := call.Make(t.Context(), c); err == nil || len(w.recorded) != 0 {
			t.Errorf("a busy lane: %v", err)
		} else if _, busy := errors.AsType[*lane.BusyError](err); !busy {
			t.Errorf("a busy lane: %v", err)
		}
		c.Busy = func(*lane.BusyError) error { return skill.Refuse("busy") }
		if r, err := call.Make(t.Context(), c); err != nil || r.Message != "busy" || len(w.recorded) != 1 {
			t.Errorf("a busy lane that is a refusal: %+v, %v", r, err)
		}
	})
}

func TestACallThatHasBegunIsMadeAgainOnlyUnderAKey(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, keyed := range []bool{false, true} {
			asked := 0
			c := w.call(t, answers(keyed, &asked, nil))
			c.Begun = true
			r, err := call.Make(t.Context(), c)
			want, calls := execution.Uncertain, 0
			if keyed {
				want, calls = execution.Succeeded, 1
			}
			if err != nil || r.Status != want || asked != calls || r.Asked != keyed || w.begun != 0 || len(w.recorded) != 1 {
				t.Errorf("with a key %v: %+v, %v; asked %d times, begun %d, %d results", keyed, r, err, asked, w.begun, len(w.recorded))
			}
		}
	})
}

func TestAnUnknownOutcomeIsTriedAgainUnderTheKey(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		unknown := &skill.UncertainError{Reason: "no answer"}
		for _, row := range []struct {
			name         string
			effect       skill.Effect
			keyed, again bool
			tries, asked int
			want         execution.StepStatus
		}{
			{"without a key", skill.Write, false, true, 3, 1, execution.Uncertain},
			{"once", skill.Write, true, false, 0, 1, execution.Uncertain},
			{"twice", skill.Write, true, false, 2, 2, execution.Uncertain},
			{"until it is known", skill.Write, true, false, 3, 3, execution.Succeeded},
			{"again later", skill.Write, true, true, 0, 1, ""},
			{"what only reads", skill.Read, true, false, 2, 2, execution.Errored}, // no person has to look
			{"what only reads, again later", skill.Read, true, true, 0, 1, ""},
		} {
			asked := 0
			k := answers(row.keyed, &asked, unknown, unknown, nil)
			k.Effect = row.effect
			c := w.call(t, k)
			c.Tries, c.Again = row.tries, row.again
			r, err := call.Make(t.Context(), c)
			if (err != nil) != (row.want == "") || r.Status != row.want || asked != row.asked || !r.Asked || w.begun != 1 {
				t.Errorf("%s: %+v, %v; asked %d times, begun %d", row.name, r, err, asked, w.begun)
			}
			if n := len(w.recorded); (n == 1) != (row.want != "") {
				t.Errorf("%s: %d results", row.name, n)
			}
		}
	})
}

// TestTrustedResults: a result is trusted only where the skill says so, and an error never is.
func TestTrustedResults(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		theirs := skill.Fail(skill.Theirs, "they said no")
		for _, row := range []struct {
			results   skill.Results
			err       error
			untrusted bool
		}{
			{"", nil, true},
			{skill.UntrustedResults, nil, true},
			{skill.TrustedResults, nil, false},
			{skill.TrustedResults, theirs, true},
			{skill.TrustedResults, &skill.UncertainError{Reason: "no answer"}, true},
		} {
			asked := 0
			k := answers(false, &asked, row.err)
			k.Results = row.results
			r, err := call.Make(t.Context(), w.call(t, k))
			if err != nil || r.Untrusted != row.untrusted {
				t.Errorf("results %q, error %v: %+v, %v", row.results, row.err, r, err)
			}
		}
	})
}

func TestNothingIsMadeUnderALostHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.lanes.ForceRelease(ctx, tx, "own")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		if _, err := call.Make(t.Context(), w.call(t, answers(true, &asked, nil))); !errors.Is(err, lane.ErrLost) || asked != 0 || len(w.recorded) != 0 {
			t.Errorf("outside: %v, asked %d times, %d results", err, asked, len(w.recorded))
		}
		// The proof is sent with the commit, so the skill has run by then. Its transaction is rolled back.
		k := skill.Skill{Run: func(context.Context, lane.Tx, skill.Call) (any, error) { return "done", nil }}
		if r, err := call.Make(t.Context(), w.call(t, k)); !errors.Is(err, lane.ErrLost) || r.Status != "" || len(w.recorded) > 1 {
			t.Errorf("in the database: %+v, %v, %d results", r, err, len(w.recorded))
		}
	})
}

func TestAResultIsRecordedAfterTheEndOfTheTime(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		k := skill.Skill{Do: func(context.Context, skill.Call) (any, error) {
			cancel()
			return nil, skill.Refuse("no")
		}}
		r, err := call.Make(ctx, w.call(t, k))
		if err != nil || r.Status != execution.Errored || !slices.ContainsFunc(w.recorded, func(r call.Result) bool { return r.Message == "no" }) {
			t.Errorf("the time ended during the call: %+v, %v; recorded %+v", r, err, w.recorded)
		}
	})
}
