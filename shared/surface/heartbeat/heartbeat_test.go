package heartbeat_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

func TestBeatsCompleteAnObjective(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, demo.New())
		id := w.addObjective(t, "Write a welcome text", 5)
		beats := 0
		for ; beats < 10; beats++ {
			if r := w.beat(t, slot(beats)); r.Outcome == heartbeat.Idle {
				break
			}
		}
		if o := w.objective(t, id); o.Status != objective.Completed || o.PlanVersion != 1 || beats != len(o.Plan) {
			t.Errorf("after %d beats the objective is %+v", beats, o)
		}
		w.mustBeFree(t)
	})
}
