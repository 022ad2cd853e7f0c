package heartbeat_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// TestALostAnswerDoesNotCostTheSlot loses the response to a beat's acquire. The slot runs
// nevertheless, in the same beat or when it is delivered again.
func TestALostAnswerDoesNotCostTheSlot(t *testing.T) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			proof := promise.Of(t, "R35", "answers to a beat's acquire lost, on "+engine, "never costs the slot")
			e := dbtest.New(t, engine)
			newWorld(t, e, idle(t))
			p, err := proxy.Start(e.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			e.URL = p.URL
			e.DB, e.Skew = e.Open(t, 1)
			w := newProcess(t, e, idle(t))
			for n, lost := range []int{1, 4} { // the request; the request and all its retries
				for range lost {
					p.At("lk_lane_acquire", proxy.Fault{Kind: proxy.CutAnswer})
				}
				tick := slot(n)
				tick.Workspace = w.Workspace
				r, err := w.Run(t.Context(), tick)
				if err != nil {
					r, err = w.Run(t.Context(), tick)
				}
				if err != nil || r.Outcome != heartbeat.Idle {
					t.Errorf("with %d answers lost the slot is %+v, %v", lost, r, err)
				}
			}
			proof.Tell("each slot ran")
		})
	}
}
