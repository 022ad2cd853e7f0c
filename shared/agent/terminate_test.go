package agent_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

func (w world) rotate(t testing.TB, id string) (is agent.Agent, err error) {
	t.Helper()
	err = w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
		is, err = w.s.Rotate(ctx, tx, id)
		return err
	})
	return is, err
}

func TestEachRotationIsANewGeneration(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.registered(t, draft("builder"))
		var wg sync.WaitGroup
		got, errs := make([]int, 8), make([]error, 8)
		for i := range got {
			wg.Go(func() {
				is, err := w.rotate(t, a.ID)
				got[i], errs[i] = is.Generation, err
			})
		}
		wg.Wait()
		slices.Sort(got)
		if diff := cmp.Diff([]int{2, 3, 4, 5, 6, 7, 8, 9}, got); diff != "" || errors.Join(errs...) != nil {
			t.Errorf("generations (-want +got):\n%s%v", diff, errors.Join(errs...))
		}
		if n, err := w.s.Generation(t.Context(), w.Workspace, a.ID); n != 9 || err != nil {
			t.Errorf("the valid generation is %d, %v", n, err)
		}
	})
}

func TestATerminatedAgentHasNoToken(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.registered(t, draft("builder"))
		is, open := w.terminate(t, a.ID, false)
		if is.Status != agent.Terminated || is.TerminatedAt == nil || is.TerminationReason != "enough" || len(open) != 0 {
			t.Errorf("terminated: %+v, %v", is, open)
		}
		if again, _ := w.terminate(t, a.ID, true); again.Version != is.Version || again.Status != agent.Terminated {
			t.Errorf("terminated again: %+v", again)
		}
		if _, err := w.s.Generation(t.Context(), w.Workspace, a.ID); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("its token: %v", err)
		}
		var ended *agent.StatusError
		if _, err := w.rotate(t, a.ID); !errors.As(err, &ended) {
			t.Errorf("a new token: %v", err)
		}
		if _, _, err := w.register(t, agent.Agent{ID: a.ID, Name: "x", CreatedBy: "user:ada"}); !errors.As(err, &ended) {
			t.Errorf("registered again: %v", err)
		}
		if _, err := w.s.Generation(t.Context(), w.Workspace, ids()); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("the token of an unknown agent: %v", err)
		}
	})
}

func TestAGracefulTerminationWaitsForTheLastAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, how := range []string{"by a heartbeat", "by itself"} {
			a := w.registered(t, draft(how))
			first, second := w.running(t, a.ID), w.running(t, a.ID)
			if is, open := w.terminate(t, a.ID, true); is.Status != agent.Draining || is.TerminatedAt != nil || len(open) != 0 {
				t.Fatalf("terminated gracefully: %+v, %v", is, open)
			}
			want := []agent.Order{{Order: "drain", Reason: "enough"}, {Order: "continue", Task: first, Attempt: 1}, {Order: "continue", Task: second, Attempt: 1}}
			if diff := cmp.Diff(want, w.beat(t, agent.Beat{Agent: a.ID})); diff != "" {
				t.Errorf("orders (-want +got):\n%s", diff)
			}
			drained := func(want int64, id string) {
				t.Helper()
				err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
					n, err := w.s.EndDrained(ctx, tx, id)
					if n != want {
						t.Errorf("%d agents have drained, want %d", n, want)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			drained(0, a.ID)
			w.exec(t, w.q.End, first, "completed")
			drained(0, a.ID)
			w.exec(t, w.q.End, second, "completed")
			if how == "by itself" {
				drained(0, ids())
				drained(1, "")
			} else if diff := cmp.Diff(want[:1], w.beat(t, agent.Beat{Agent: a.ID})); diff != "" {
				t.Errorf("the last orders (-want +got):\n%s", diff)
			}
			if is := w.get(t, a.ID); is.Status != agent.Terminated || is.TerminatedAt == nil || is.TerminationReason != "enough" {
				t.Errorf("drained %s: %+v", how, is)
			}
		}
	})
}

func TestAHardTerminationNamesTheOpenAttempts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.registered(t, draft("builder"))
		done, running, waiting := w.running(t, a.ID), w.running(t, a.ID), w.assigned(t, a.ID)
		w.exec(t, w.q.End, done, "completed")
		w.terminate(t, a.ID, true)
		is, open := w.terminate(t, a.ID, false)
		if diff := cmp.Diff([]agent.Attempt{{Task: running, Number: 1}, {Task: waiting, Number: 1}}, open); diff != "" || is.Status != agent.Terminated {
			t.Errorf("%s; open attempts (-want +got):\n%s", is.Status, diff)
		}
	})
}
