package objective_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// refused fails unless the skill refuses, and returns the reason.
func (w world) refused(t testing.TB, name, arguments string) string {
	t.Helper()
	value, err := w.use(t, name, arguments)
	refusal, ok := errors.AsType[*skill.RefusalError](err)
	if !ok {
		t.Fatalf("%s answers %v and %v, want a refusal", name, value, err)
	}
	return refusal.Reason
}

func (w world) done(t testing.TB, name, arguments string) map[string]any {
	t.Helper()
	value, err := w.use(t, name, arguments)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value.(map[string]any)
}

func TestSkillsBringAnObjectiveToItsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.done(t, "set_objective", `{"title": "t", "description": "d", "doneCriterion": "c"}`)["objectiveId"].(string)
		if o := w.get(t, id); o.Priority != 5 || o.CreatedBy != "flowpilot" || o.Description != "d" || o.DoneCriterion != "c" {
			t.Errorf("it is %+v", o)
		}
		w.done(t, "plan_objective", fmt.Sprintf(`{"objectiveId": %q, "steps": [{"title": "a", "skill": "save_memory", "inputs": {"x": 1}}, {"title": "b"}]}`, id))
		if why := w.refused(t, "complete_objective", fmt.Sprintf(`{"objectiveId": %q, "summary": "s"}`, id)); !strings.Contains(why, "2 steps") {
			t.Errorf("refused because %s", why)
		}
		w.done(t, "advance_plan", fmt.Sprintf(`{"objectiveId": %q, "step": 1, "result": "r"}`, id))
		if why := w.refused(t, "advance_plan", fmt.Sprintf(`{"objectiveId": %q, "step": 1, "result": "r"}`, id)); why != objective.ErrNotPending.Error() {
			t.Errorf("refused because %s", why)
		}
		w.refused(t, "complete_objective", fmt.Sprintf(`{"objectiveId": %q, "summary": "s"}`, id))
		w.done(t, "advance_plan", fmt.Sprintf(`{"objectiveId": %q, "step": 2, "result": "r"}`, id))
		w.done(t, "complete_objective", fmt.Sprintf(`{"objectiveId": %q, "summary": "s"}`, id))
		if o := w.get(t, id); o.Status != objective.Completed || o.Summary != "s" || o.Plan[1].Result != "r" {
			t.Errorf("it is %+v", o)
		}
		for name, arguments := range map[string]string{
			"complete_objective": `{"objectiveId": %q, "summary": "s"}`,
			"plan_objective":     `{"objectiveId": %q, "steps": [{"title": "a"}]}`,
		} {
			if why := w.refused(t, name, fmt.Sprintf(arguments, id)); why != objective.ErrNotActive.Error() {
				t.Errorf("%s is refused because %s", name, why)
			}
		}
	})
}

func TestPlanningWhatIsNotThereIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		if why := w.refused(t, "plan_objective", fmt.Sprintf(`{"objectiveId": %q, "steps": [{"title": "a"}]}`, ids())); why != objective.ErrNotActive.Error() {
			t.Errorf("refused because %s", why)
		}
	})
}

// TestTheIDOfZerosIsOfNoObjective, and a call with it is refused like one with any other id that nothing has.
func TestTheIDOfZerosIsOfNoObjective(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for name, rest := range map[string]string{
			"plan_objective": `"steps": [{"title": "a", "doneCriterion": "d"}]`, "advance_plan": `"step": 1, "result": "r"`, "complete_objective": `"summary": "s"`,
		} {
			w.refused(t, name, `{"objectiveId": "00000000-0000-0000-0000-000000000000", `+rest+`}`)
		}
	})
}

// TestOneObjectiveHasOneLane: an id may be in upper case, and Postgres would find its row. The lane
// that protects it must still be the same.
func TestOneObjectiveHasOneLane(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.create(t, "x", 5)
		w.plan(t, id, "a")
		w.hold(t, lane.Objective(id))
		for name, arguments := range map[string]string{
			"plan_objective":     `{"objectiveId": %q, "steps": [{"title": "stolen"}]}`,
			"advance_plan":       `{"objectiveId": %q, "step": 1, "result": "stolen"}`,
			"complete_objective": `{"objectiveId": %q, "summary": "stolen"}`,
		} {
			_, err := w.use(t, name, fmt.Sprintf(arguments, strings.ToUpper(id)))
			if _, busy := errors.AsType[*lane.BusyError](err); !busy {
				t.Errorf("%s past the holder of the lane: %v", name, err)
			}
		}
		if o := w.get(t, id); o.PlanVersion != 1 || o.Plan[0].Status != objective.Pending {
			t.Errorf("it became %+v", o)
		}
	})
}
