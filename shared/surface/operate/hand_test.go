package operate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestASkillByHandThatIsCutOffIsMadeOnce: nobody makes the call later, unasked.
func TestASkillByHandThatIsCutOffIsMadeOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ran := 0
		k := skill.Skill{Name: "mail", Parameters: []byte(`{"type": "object"}`), Do: func(context.Context, skill.Call) (any, error) {
			ran++
			_, err := w.dies(t)(context.Background(), llm.Request{}, nil)
			return "sent", err
		}}
		set := must(skill.NewSet(k))(t)
		inner := w.Skills
		w.Skills = func(ctx context.Context, ws db.Workspace, s trace.Surface) (*skill.Set, error) { return set, nil }
		defer func() { w.Skills = inner }()
		used, err := w.RunSkill(t.Context(), w.Workspace, "mail", []byte(`{}`), operate.ByHand{By: "user:ada", Person: true})
		if !errors.Is(err, lane.ErrLost) {
			t.Errorf("got %+v, %v", used, err)
		}
		w.Skew.Advance(time.Hour)
		if got := w.drain(t); got.Claimed != 0 || ran != 1 || w.execution(t, used.Execution).Status != execution.Running {
			t.Errorf("made %d times, then %+v", ran, got)
		}
		w.mustBeFree(t)
	})
}
