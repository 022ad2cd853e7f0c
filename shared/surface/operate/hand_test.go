package operate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestASkillByHandThatIsCutOffIsMadeOnce: nobody makes the call later, unasked. Its execution ends when its lease has
// ended, without a beat.
func TestASkillByHandThatIsCutOffIsMadeOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ran := 0
		k := skill.Skill{Name: "mail", Keyed: true, Parameters: []byte(`{"type": "object"}`), Do: func(context.Context, skill.Call) (any, error) {
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
		w.Skew.Advance(time.Minute)
		got, e := w.drain(t), w.execution(t, used.Execution)
		if got.Sent != 1 || ran != 1 || e.Status != execution.Failed || !strings.Contains(e.Error, "cut off") {
			t.Errorf("made %d times, then %+v: %+v", ran, got, e)
		}
		page, err := w.Activity.List(t.Context(), w.Workspace, activity.Filter{Skill: "mail", Limit: 5})
		if err != nil || len(page.Items) != 1 || !strings.Contains(page.Items[0].Error, "uncertain") {
			t.Errorf("nothing tells that the call had begun: %+v, %v", page.Items, err)
		}
		w.mustBeFree(t)
	})
}

// TestASkillByHandWhoseTimeIsUpEndsAtOnce: the caller gets an error, and its execution does not stay open.
func TestASkillByHandWhoseTimeIsUpEndsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx, leave := context.WithCancel(t.Context())
		k := skill.Skill{Name: "mail", Parameters: []byte(`{"type": "object"}`), Do: func(ctx context.Context, _ skill.Call) (any, error) {
			leave()
			return nil, ctx.Err()
		}}
		set := must(skill.NewSet(k))(t)
		w.Skills = func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) { return set, nil }
		used, err := w.RunSkill(ctx, w.Workspace, "mail", []byte(`{}`), operate.ByHand{By: "user:ada", Person: true})
		if err == nil {
			t.Errorf("got %+v", used)
		}
		w.drain(t)
		if e := w.execution(t, used.Execution); e.Status != execution.Failed {
			t.Errorf("it is %+v", e)
		}
		w.mustBeFree(t)
	})
}
