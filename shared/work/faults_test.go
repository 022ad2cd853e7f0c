//go:build faults

package work_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// TestAtEachFaultPoint interrupts the process once at each named point (R3, R26), or freezes it
// there while another process takes its lane (R2), for each kind of skill (R28). A successor
// continues the work, nothing is written twice, and an effect is only repeated under its
// idempotency key.
//
//	go test -tags faults -run TestAtEachFaultPoint ./shared/work
func TestAtEachFaultPoint(t *testing.T) {
	at := func(string) int { return http.StatusOK }
	driver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var in struct{ Point string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		rw.WriteHeader(at(in.Point))
	}))
	t.Cleanup(driver.Close)
	t.Setenv("LK_FAULT_URL", driver.URL)
	points := []string{"test.begun", "skill.before", "skill.begun", "skill.ran", "skill.recorded", "test.ending"}
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e)
		for _, kind := range []string{"in the database", "keyed", "not keyed"} {
			for _, point := range points {
				for _, frozen := range []bool{false, true} {
					w.id, w.ends, w.Workspace = ids(), nil, dbtest.NewWorkspace(t, w.DB)
					effects, keys := 0, map[string]bool{}
					k := skill.Skill{Name: "act", Parameters: []byte(`{"type": "object"}`), Keyed: kind == "keyed"}
					if kind == "in the database" {
						k.Run = func(context.Context, lane.Tx, skill.Call) (any, error) { return "done", nil }
					} else {
						k.Do = func(_ context.Context, c skill.Call) (any, error) {
							effects++
							keys[c.Key] = true
							return "done", nil
						}
					}
					skills, err := skill.NewSet(k)
					if err != nil {
						t.Fatal(err)
					}
					w.act = func(ctx context.Context, job reason.Job) (reason.Outcome, error) {
						job.Skills, job.SkillTimeout = skills, time.Minute
						_, out, err := w.Reason.RunCallByHand(ctx, job, "act", json.RawMessage(`{}`))
						return out, err
					}
					met := false
					at = func(name string) int {
						if name != point || met {
							return http.StatusOK
						}
						met = true
						if frozen { // another process takes the lane, so every later write fails
							w.force(t, w.lane())
							return http.StatusOK
						}
						return http.StatusServiceUnavailable
					}
					u := w.unit()
					u.Fresh = true
					_, err = w.Do(t.Context(), u)
					name := kind + " at " + point
					if !met && (point == "skill.begun" || point == "skill.ran") && kind == "in the database" {
						continue // it has no such points
					}
					if !met || err == nil {
						t.Errorf("%s: met %v, %v", name, met, err)
					}
					if w.logged(t) != 0 || w.stored(t).Status != execution.Running {
						t.Errorf("%s (frozen: %v): it wrote its end", name, frozen)
					}
					w.kicks(t, outbox.Ready, true)
					out := w.once(t, w.unit())
					uncertain := kind == "not keyed" && (point == "skill.begun" || point == "skill.ran")
					want := map[bool]execution.Status{true: execution.Failed, false: execution.Completed}[uncertain]
					if out.Status != want || w.logged(t) != 1 {
						t.Errorf("%s (frozen: %v): it went on as %+v, %d ends", name, frozen, out, w.logged(t))
					}
					w.is(t, want, 2)
					w.kicks(t, outbox.Superseded, false)
					w.mustBeFree(t)
					if len(keys) > 1 || kind == "not keyed" && effects > 1 || kind == "not keyed" && effects == 0 && point != "skill.begun" || kind == "keyed" && (effects < 1 || effects > 2) {
						t.Errorf("%s (frozen: %v): %d effects under %d keys", name, frozen, effects, len(keys))
					}
					at = func(string) int { return http.StatusOK }
				}
			}
		}
	})
}
